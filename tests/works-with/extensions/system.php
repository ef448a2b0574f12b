<?php
// The system: processes, files, memory, sockets.
// The kind of what is seen of a file that is written to: IN_MODIFY, which is 2.
$seen_by = static function ($queue) {
    $file = tempnam(getenv('STATE'), 'seen');
    $watch = inotify_add_watch($queue, $file, 2);
    file_put_contents($file, 'text');
    $seen = array_filter(inotify_read($queue), static fn ($event) => $event['wd'] === $watch);
    inotify_rm_watch($queue, $watch);
    return array_column($seen, 'mask');
};
return [
    'inotify' => ['only' => '8.4', 'use' => static fn () => $seen_by(inotify_init()), 'is' => [2]],
    'inotify, of the boot' => ['only' => '8.4', 'module' => 'inotify', 'make' => static fn () => inotify_init(), 'use' => $seen_by, 'is' => [2]],
    'posix' => ['use' => static fn () => posix_getpwuid(0)['name'], 'is' => 'root'],
    'shmop' => [
        'use' => static function () {
            $memory = shmop_open(random_int(1, PHP_INT_MAX) & 0x7fffffff, 'c', 0o600, 64);
            shmop_write($memory, 'text', 0);
            $text = shmop_read($memory, 0, 4);
            shmop_delete($memory);
            return $text;
        },
        'is' => 'text',
    ],
    'sysvmsg' => [
        'use' => static function () {
            $queue = msg_get_queue(random_int(1, 0x7fffffff), 0o600);
            msg_send($queue, 1, ['a' => 1]);
            msg_receive($queue, 0, $kind, 1000, $message);
            msg_remove_queue($queue);
            return [$kind, $message];
        },
        'is' => [1, ['a' => 1]],
    ],
    'sysvsem' => [
        'use' => static function () {
            $semaphore = sem_get(random_int(1, 0x7fffffff), 1, 0o600);
            $taken = sem_acquire($semaphore);
            sem_release($semaphore);
            sem_remove($semaphore);
            return $taken;
        },
        'is' => true,
    ],
    'sysvshm' => [
        'use' => static function () {
            $memory = shm_attach(random_int(1, 0x7fffffff), 1000, 0o600);
            shm_put_var($memory, 1, ['a' => 1]);
            $value = shm_get_var($memory, 1);
            shm_remove($memory);
            return $value;
        },
        'is' => ['a' => 1],
    ],
    'sockets' => [
        'use' => static function () {
            socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $pair);
            socket_write($pair[0], 'text');
            return socket_read($pair[1], 10);
        },
        'is' => 'text',
    ],
    'ffi' => [
        'use' => static fn () => FFI::cdef('int abs(int);')->abs(-3),
        'is' => 3,
    ],
    'apcu' => [
        'use' => static function () {
            apcu_store('works', 'text');
            return apcu_fetch('works');
        },
        'is' => 'text',
    ],
    'yac' => [
        'make' => static fn () => new Yac('works_'),
        'use' => static function (Yac $made) {
            $made->set('a', 'text');
            return $made->get('a');
        },
        'is' => 'text',
    ],
    'dba' => [
        'use' => static function () {
            $database = dba_open(getenv('STATE') . '/' . bin2hex(random_bytes(6)), 'c', 'db4');
            dba_insert('a', 'text', $database);
            $text = dba_fetch('a', $database);
            dba_close($database);
            return $text;
        },
        'is' => 'text',
    ],
    'sqlite3' => [
        'make' => static function () {
            $database = new SQLite3(':memory:');
            $database->exec('CREATE TABLE t (a); INSERT INTO t VALUES (7)');
            return $database;
        },
        'use' => static fn (SQLite3 $made) => $made->querySingle('SELECT a FROM t'),
        'is' => 7,
    ],
    'pdo_sqlite' => [
        'with' => ['pdo'],
        'make' => static function () {
            $database = new PDO('sqlite:' . getenv('STATE') . '/pdo.sqlite');
            $database->exec('CREATE TABLE IF NOT EXISTS t (a)');
            return $database;
        },
        'use' => static fn (PDO $made) => $made->query('SELECT count(*) FROM t')->fetchColumn(),
        'is' => 0,
    ],
    'odbc' => ['use' => static fn () => @odbc_connect('none', '', ''), 'is' => false],
    'pdo_odbc' => ['with' => ['pdo'], 'use' => static fn () => in_array('odbc', PDO::getAvailableDrivers(), true), 'is' => true],
    'pdo_dblib' => ['with' => ['pdo'], 'use' => static fn () => in_array('dblib', PDO::getAvailableDrivers(), true), 'is' => true],
    'pdo_firebird' => ['with' => ['pdo'], 'use' => static fn () => in_array('firebird', PDO::getAvailableDrivers(), true), 'is' => true],
    'libvirt-php' => [
        'use' => static function () {
            $connection = libvirt_connect('test:///default', true);
            return libvirt_list_domains($connection);
        },
        'is' => ['test'],
    ],
    'luasandbox' => [
        'make' => static fn () => new LuaSandbox(),
        'use' => static fn (LuaSandbox $made) => $made->loadString('return 6 * 7')->call(),
        'is' => [42],
    ],
    'uploadprogress' => ['use' => static fn () => uploadprogress_get_info('none'), 'is' => null],
];
