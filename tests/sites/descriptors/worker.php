<?php
// What a boot may leave open, and what a request does with it.

function libc(): FFI
{
    static $libc;
    return $libc ??= FFI::cdef('
        int epoll_create1(int flags);
        int inotify_init1(int flags);
        int timerfd_create(int clock, int flags);
        int eventfd(unsigned count, int flags);
        long read(int descriptor, void *at, size_t length);
        long write(int descriptor, void *at, size_t length);
    ');
}

function state(string $name): string
{
    return getenv('STATE') . "/$name";
}

/** A database with rows enough that a transaction does not fit into the cache of ten pages. */
function database(string $mode): PDO
{
    $database = new PDO('sqlite:' . state('database'));
    $database->exec("PRAGMA journal_mode = $mode; PRAGMA cache_size = 10;
        DROP TABLE IF EXISTS t; CREATE TABLE t(a, b)");
    $database->exec('WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
        INSERT INTO t SELECT 1, hex(zeroblob(100)) FROM n');
    return $database;
}

function unfinished_query(): PDOStatement
{
    $query = database('DELETE')->query('SELECT a FROM t');
    $query->fetch();
    return $query;
}

function locked(int $how): mixed
{
    $file = fopen(state('locked'), 'c+');
    flock($file, $how);
    return $file;
}

function acquired(): SysvSemaphore
{
    touch(state('semaphore'));
    $semaphore = sem_get(ftok(state('semaphore'), 's'));
    sem_acquire($semaphore);
    register_shutdown_function(sem_remove(...), $semaphore);
    return $semaphore;
}

function in_transaction(string $mode): PDO
{
    $database = database($mode);
    $database->exec('BEGIN IMMEDIATE');
    return $database;
}

$left = match (getenv('LEFT')) {
    'pipe' => popen('cat', 'w'),
    'epoll' => libc()->epoll_create1(0),
    'inotify' => libc()->inotify_init1(0),
    'timer' => libc()->timerfd_create(1, 0),
    'lock' => locked(LOCK_EX),
    'semaphore' => acquired(),
    'transaction' => in_transaction('DELETE'),
    'transaction, WAL' => in_transaction('WAL'),
    'query' => unfinished_query(),
    'counter' => libc()->eventfd(3, 04000),
    'standard error' => fopen('php://stderr', 'w'),
    'database' => database('DELETE'),
    'database, WAL' => database('WAL'),
    'database, journal in memory' => database('MEMORY'),
    'zmq' => new ZMQContext(),
};

$booted = getmypid();
while (tokamak_handle_request(static function () use ($left, $booted): void {
    switch ($_GET['do'] ?? '') {
        case 'booted':
            echo $booted === getmypid() ? 'here' : 'elsewhere';
            break;
        case 'count':
            $value = libc()->new('unsigned long');
            echo libc()->read($left, FFI::addr($value), 8), ' ', $value->cdata;
            break;
        case 'last eventfd':
            // Of an extension: those of the server come before. The kernel numbers them.
            foreach (glob('/proc/self/fdinfo/*') as $file) {
                $text = @file_get_contents($file);
                if (preg_match('/eventfd-count:\s*(\d+).*eventfd-id:\s*(\d+)/s', $text, $found)) {
                    $last[(int) basename($file)] = "number $found[2] at $found[1]";
                }
            }
            ksort($last);
            if (isset($_GET['add'])) {
                $five = libc()->new('unsigned long');
                $five->cdata = 5;
                echo libc()->write(array_key_last($last), FFI::addr($five), 8);
                break;
            }
            echo end($last);
            break;
        case 'zmq':
            $socket = $left->getSocket(ZMQ::SOCKET_PUSH);
            // A thread of the library frees the name of a closed socket, and may be late.
            $socket->bind('inproc://'.bin2hex(random_bytes(8)));
            echo 'bound';
            break;
        case 'many':
            for ($files = []; count($files) < 2500; $files[] = fopen('/dev/null', 'r')) {
            }
            echo count($files);
            break;
        case 'leave':
            $left->beginTransaction();
            $left->exec('UPDATE t SET a = 2');
            exit('left open');
        case 'look':
            // Another process, because a process does not exclude itself by its locks.
            $python = proc_open(['python3', '-c', <<<'PYTHON'
                import sqlite3, sys
                database = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
                database.execute("BEGIN EXCLUSIVE")
                print(database.execute("PRAGMA integrity_check").fetchone()[0])
                print(database.execute("SELECT sum(a) FROM t").fetchone()[0])
                PYTHON, state('database')], [1 => ['pipe', 'w']], $pipes);
            echo stream_get_contents($pipes[1]);
            proc_close($python);
            break;
        default:
            echo 'served';
    }
})) {
}
