<?php
// What the kernel keeps behind the descriptors that the boot has opened. Memory does not tell of
// it.

const MANY = 70;

/** What a worker script opens before its loop, and a request of classic mode when it needs it. */
final class Opened
{
    /** @var array<string, Closure(): mixed> */
    public static array $openers = [];
    private static array $things = [];

    public static function all(): void
    {
        array_map(self::get(...), array_keys(self::$openers));
    }

    public static function get(string $name): mixed
    {
        return self::$things[$name] ??= (self::$openers[$name])();
    }

    /** Of what outlives all processes. */
    public static function end(): void
    {
        if (extension_loaded('sysvsem')) {
            sem_remove(self::get('semaphore'));
        }
    }
}

/**
 * A file for one channel, the same for all requests. Workers boot side by side, so it appears when
 * it is complete.
 */
function made_once(string $name, Closure $make): string
{
    if (!file_exists(note($name))) {
        $own = note($name) . '-' . getmypid();
        $make($own);
        @link($own, note($name)); // fails if another worker was first
        unlink($own);
    }
    return note($name);
}

function file_for(string $name): string
{
    return made_once($name, fn (string $path) => file_put_contents($path, str_repeat("line\n", 10)));
}

/** A directory that no other channel opens. */
function directory(): string
{
    is_dir(note('directory')) || @mkdir(note('directory'));
    return note('directory');
}

/** The kernel's word on the first descriptor behind which this file is; "closed" without one. */
function kernel_of(string $path, string $word): string
{
    foreach (scandir('/proc/self/fd') as $number) {
        if (@readlink("/proc/self/fd/$number") === $path) {
            preg_match("/^$word:\s*(.*)$/m", file_get_contents("/proc/self/fdinfo/$number"), $found);
            return $found[1];
        }
    }
    return 'closed';
}

/**
 * What a program in Python prints: another process, because a process does not exclude itself by
 * its locks.
 */
function ask_another_process(string $program, string $path): string
{
    $python = proc_open(['python3', '-c', $program, $path], [1 => ['pipe', 'w']], $pipes);
    $answer = stream_get_contents($pipes[1]);
    proc_close($python);
    return $answer;
}

function is_free(string $path): string
{
    return ask_another_process(<<<'PYTHON'
        import fcntl, sys
        try:
            fcntl.lockf(open(sys.argv[1], "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)
            print("free")
        except OSError:
            print("locked")
        PYTHON, $path);
}

/** Functions by which libraries lock. */
function locks(): FFI
{
    static $libc;
    return $libc ??= FFI::cdef('
        struct flock { short type, whence; long start, length; int process; };
        int fcntl(int descriptor, int command, ...);
        long syscall(long number, ...);
    ');
}

/** The number of the descriptor behind which this file of the boot is. */
function number_of(string $name, string $path): int
{
    Opened::get($name);
    foreach (scandir('/proc/self/fd') as $number) {
        if (@readlink("/proc/self/fd/$number") === $path) {
            return (int) $number;
        }
    }
    return -1;
}

/** Locks a file of the boot, by a lock of the process or of the open file. */
function lock_by_fcntl(string $name, string $path, int $command): void
{
    $lock = locks()->new('struct flock');
    $lock->type = 1; // F_WRLCK
    locks()->fcntl(number_of($name, $path), $command, FFI::addr($lock));
}

/**
 * What fcntl() changes of a file of the boot: commands to set it and to ask for it, and a number.
 */
function fcntl_channel(string $name, int $set, int $ask, Closure $value): Channel
{
    Opened::$openers[$name] = fn () => fopen(file_for($name), 'r');
    return new Channel(
        pollute: fn () => locks()->fcntl(number_of($name, note($name)), $set, $value()),
        probe: fn () => locks()->fcntl(number_of($name, file_for($name)), $ask),
        worker: STAYS,
        needs: 'ffi',
    );
}

/** How many rows others find in a database, and whether they may write at once. */
function database_of_others(string $path): string
{
    return ask_another_process(<<<'PYTHON'
        import sqlite3, sys
        database = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
        print(database.execute("SELECT count(*) FROM t").fetchone())
        try:
            database.execute("BEGIN IMMEDIATE")
            print("free")
        except sqlite3.OperationalError:
            print("locked")
        PYTHON, $path);
}

/** A database with one row, for one channel. */
function database_for(string $name, string $mode): string
{
    return made_once($name, function (string $path) use ($mode): void {
        $new = new SQLite3($path);
        $new->exec("PRAGMA journal_mode = $mode; CREATE TABLE t(a); INSERT INTO t VALUES (1)");
        $new->close();
    });
}

function database_channel(string $name, string $mode, bool $by_pdo): Channel
{
    Opened::$openers[$name] = function () use ($name, $mode, $by_pdo): PDO|SQLite3 {
        $path = database_for($name, $mode);
        $database = $by_pdo ? new PDO("sqlite:$path") : new SQLite3($path);
        $by_pdo ? $database->query('SELECT a FROM t')->fetchAll() : $database->querySingle('SELECT a FROM t');
        return $database;
    };
    return new Channel(
        pollute: function () use ($name) {
            Opened::get($name)->exec('BEGIN IMMEDIATE');
            Opened::get($name)->exec('INSERT INTO t VALUES (2)');
        },
        probe: fn () => database_of_others(database_for($name, $mode)),
        worker: STAYS,
        needs: $by_pdo ? 'pdo_sqlite' : 'sqlite3',
    );
}

Opened::$openers += [
    'locked' => fn () => fopen(file_for('locked'), 'r+'),
    'locked by fcntl' => fn () => fopen(file_for('locked-by-fcntl'), 'r+'),
    'locked by its open file' => fn () => fopen(file_for('locked-by-its-open-file'), 'r+'),
    'locked past libc' => fn () => fopen(file_for('locked-past-libc'), 'r+'),
    'moved by a child' => fn () => fopen(file_for('moved-by-a-child'), 'r'),
    'device' => fn () => fopen('/dev/zero', 'r'),
    'directory' => fn () => opendir(directory()),
    'closed directory' => fn () => opendir(dirname(__DIR__)),
    'many files' => fn () => array_map(fn () => fopen(file_for('many'), 'r'), range(1, MANY)),
];
if (extension_loaded('sysvsem')) {
    Opened::$openers['semaphore'] = fn () => sem_get(ftok(file_for('semaphore'), 's'));
}

return [
    'many files of the boot, read' => new Channel(
        pollute: function () {
            foreach (Opened::get('many files') as $file) {
                fread($file, 5);
            }
        },
        probe: function () {
            $moved = 0;
            foreach (scandir('/proc/self/fd') as $number) {
                if (@readlink("/proc/self/fd/$number") === note('many')) {
                    $moved += !str_contains(file_get_contents("/proc/self/fdinfo/$number"), "pos:\t0\n");
                }
            }
            return $moved >= MANY;
        },
        worker: STAYS,
    ),
    'file of the boot, locked' => new Channel(
        pollute: function () { flock(Opened::get('locked'), LOCK_EX); },
        probe: fn () => flock(fopen(file_for('locked'), 'r+'), LOCK_EX | LOCK_NB),
        worker: STAYS,
    ),
    'file of the boot, locked by fcntl()' => new Channel(
        pollute: function () { lock_by_fcntl('locked by fcntl', note('locked-by-fcntl'), 6 /* F_SETLK */); },
        probe: fn () => is_free(file_for('locked-by-fcntl')),
        worker: STAYS,
        needs: 'ffi',
    ),
    'file of the boot, locked by its open file' => new Channel(
        pollute: function () { lock_by_fcntl('locked by its open file', note('locked-by-its-open-file'), 37 /* F_OFD_SETLK */); },
        probe: fn () => is_free(file_for('locked-by-its-open-file')),
        worker: STAYS,
        needs: 'ffi',
    ),
    'file of the boot, locked past the C library' => new Channel(
        pollute: function () {
            $lock = locks()->new('struct flock');
            $lock->type = 1; // F_WRLCK
            $number = number_of('locked past libc', note('locked-past-libc'));
            locks()->syscall(72, $number, 6, FFI::addr($lock)); // fcntl(), F_SETLK
            locks()->syscall(73, $number, 2); // flock(), LOCK_EX
        },
        probe: fn () => [
            is_free(file_for('locked-past-libc')),
            flock(fopen(file_for('locked-past-libc'), 'r+'), LOCK_EX | LOCK_NB),
        ],
        worker: STAYS,
        needs: 'ffi',
    ),
    'file of the boot, owned' => fcntl_channel('owned', 8, 9, getmypid(...)), // F_SETOWN, F_GETOWN
    'file of the boot, its signal' => fcntl_channel('signalling', 10, 11, fn () => 10), // F_SETSIG, F_GETSIG
    'file of the boot, leased' => fcntl_channel('leased', 1024, 1025, fn () => 0), // F_SETLEASE, F_RDLCK
    'file of the boot, moved by a child later' => new Channel(
        pollute: function () {
            $file = Opened::get('moved by a child');
            $child = pcntl_fork();
            if ($child === 0) {
                // A child's child, so that no worker has to wait for it.
                if (pcntl_fork() === 0) {
                    for ($i = 0; $i < 5000 && !file_exists(note('go')); $i++) {
                        usleep(1000);
                    }
                    fread($file, 5);
                    touch(note('gone'));
                }
                posix_kill(getmypid(), SIGKILL);
            }
            pcntl_waitpid($child, $status);
            touch(note('waits'));
        },
        probe: function () {
            if (file_exists(note('waits'))) {
                touch(note('go'));
                for ($i = 0; $i < 5000 && !file_exists(note('gone')); $i++) {
                    usleep(1000);
                }
            }
            Opened::get('moved by a child');
            return kernel_of(note('moved-by-a-child'), 'pos');
        },
        worker: STAYS,
        needs: 'pcntl',
    ),
    'device of the boot, not blocking' => new Channel(
        pollute: function () { stream_set_blocking(Opened::get('device'), false); },
        probe: function () {
            Opened::get('device');
            return kernel_of('/dev/zero', 'flags');
        },
        worker: STAYS,
    ),
    'directory of the boot, read' => new Channel(
        pollute: function () { readdir(Opened::get('directory')); },
        probe: fn () => [is_resource(Opened::get('directory')), kernel_of(directory(), 'pos')],
        worker: STAYS,
    ),
    'directory of the boot, closed' => new Channel(
        pollute: function () { closedir(Opened::get('closed directory')); },
        probe: fn () => [is_resource(Opened::get('closed directory')), kernel_of(dirname(__DIR__), 'flags')],
        worker: STAYS,
        sealed: REPLACED,
    ),
    'semaphore, acquired' => new Channel(
        pollute: function () { sem_acquire(Opened::get('semaphore')); },
        probe: function () {
            $is_free = sem_acquire(Opened::get('semaphore'), true);
            if ($is_free) {
                sem_release(Opened::get('semaphore'));
            }
            return $is_free;
        },
        worker: STAYS,
        needs: 'sysvsem',
    ),
    'semaphore, acquired and not to be released' => new Channel(
        pollute: function () {
            Kept::$things[] = $kept = sem_get(ftok(file_for('kept'), 's'), 1, 0600, false);
            sem_acquire($kept);
        },
        probe: function () {
            $asked = sem_get(ftok(file_for('kept'), 's'), 1, 0600, false);
            $is_free = sem_acquire($asked, true);
            if ($is_free) {
                sem_release($asked);
            }
            return $is_free;
        },
        fpm: STAYS,
        worker: STAYS,
        needs: 'sysvsem',
    ),
    'transaction of SQLite3' => database_channel('sqlite3', 'DELETE', false),
    'transaction of SQLite3, WAL' => database_channel('logged-sqlite3', 'WAL', false),
    'transaction of PDO with SQLite' => database_channel('pdo-sqlite', 'DELETE', true),
    'transaction of PDO with SQLite, WAL' => database_channel('logged-pdo-sqlite', 'WAL', true),
];
