<?php

// What one visitor leaves in the session of a kept connection, and what the next one sees of it.

$see = [
    'mysql' => static fn (PDO $mysql) => [
        'session' => rows($mysql, 'SELECT CONNECTION_ID(), @left, @kept, @@sql_mode, @@time_zone, @@character_set_client,
            @@character_set_results, @@collation_connection, DATABASE(), LAST_INSERT_ID(), @@in_transaction, @@autocommit,
            @@tx_isolation, ROW_COUNT(), FOUND_ROWS(), @@warning_count, @@error_count, CURRENT_ROLE(), CURRENT_USER(),
            @@profiling, @@tx_read_only, @@insert_id, YEAR(NOW()) > 2000'),
        'sequence' => works($mysql, 'SELECT LASTVAL(reactor.counted)') ? rows($mysql, 'SELECT LASTVAL(reactor.counted)') : [],
        'profiles' => rows($mysql, 'SHOW PROFILES'),
        'lock' => rows($mysql, "SELECT IS_FREE_LOCK('left')"),
        'rows' => rows($mysql, 'SELECT COUNT(*) FROM reactor.rods'),
        'temporary' => works($mysql, 'SELECT 1 FROM reactor.temporary'),
        'prepared' => works($mysql, 'EXECUTE left_over'),
        'writes' => works($mysql, 'SELECT 1 FROM reactor.other'),
        'handler' => works($mysql, 'HANDLER left_open READ FIRST'),
        'trace' => rows($mysql, 'SELECT COUNT(*) FROM information_schema.OPTIMIZER_TRACE'),
        'distributed' => works($mysql, "XA END 'left'"),
    ],
    'pgsql' => static fn (PDO $pgsql) => [
        'session' => rows($pgsql, "SELECT pg_backend_pid(), NULLIF(current_setting('reactor.leftover', true), ''), current_user, session_user,
            current_setting('search_path'), current_setting('application_name'), current_setting('client_encoding'),
            pg_current_xact_id_if_assigned(), current_setting('statement_timeout'), current_setting('role'),
            current_setting('default_transaction_read_only'), current_setting('transaction_isolation')"),
        'temporary' => rows($pgsql, "SELECT to_regclass('pg_temp.temporary')"),
        'prepared' => rows($pgsql, 'SELECT count(*) FROM pg_prepared_statements'),
        'cursors' => rows($pgsql, "SELECT count(*) FROM pg_cursors WHERE name = 'held'"),
        'function' => rows($pgsql, "SELECT to_regprocedure('pg_temp.left_over()')"),
        'listens' => rows($pgsql, 'SELECT count(*) FROM pg_listening_channels()'),
        'locks' => rows($pgsql, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"),
        'rows' => rows($pgsql, 'SELECT count(*) FROM rods'),
        'sequence' => works($pgsql, 'SELECT lastval()'),
    ],
    'redis' => static function (Redis $redis): array {
        preg_match_all('/\b(id|db|name|sub|psub|ssub|multi|user|flags|redir|resp|lib-name)=(\S*)/',
            $redis->rawCommand('CLIENT', 'INFO'), $info);
        $redis->rawCommand('MULTI');
        $redis->rawCommand('PING');

        return [
            'session' => $info[0],
            'watched' => $redis->rawCommand('EXEC') === [],
            'script' => $redis->rawCommand('EVAL', 'return 1', '0'),
        ];
    },
];

$leave = [
    'mysql' => [
        'variable' => static fn (PDO $d) => $d->exec("SET @left = 'something'"),
        'mode' => static fn (PDO $d) => $d->exec("SET SESSION sql_mode = 'ANSI'"),
        'zone' => static fn (PDO $d) => $d->exec("SET time_zone = '-05:00'"),
        'names' => static fn (PDO $d) => $d->exec('SET NAMES latin2'),
        'database' => static fn (PDO $d) => $d->exec('USE information_schema'),
        'isolation' => static fn (PDO $d) => $d->exec('SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE'),
        'autocommit' => static fn (PDO $d) => $d->exec('SET autocommit = 0'),
        'id' => static fn (PDO $d) => $d->exec('INSERT INTO numbered () VALUES ()'),
        'lock' => static fn (PDO $d) => rows($d, "SELECT GET_LOCK('left', 5)"),
        'tables' => static fn (PDO $d) => $d->exec('LOCK TABLES rods WRITE'),
        'temporary' => static fn (PDO $d) => $d->exec('CREATE TEMPORARY TABLE temporary (n INT)'),
        'prepared' => static fn (PDO $d) => $d->exec("PREPARE left_over FROM 'SELECT 1'"),
        'transaction' => static fn (PDO $d) => $d->exec('START TRANSACTION') + $d->exec("INSERT INTO rods VALUES ('x')"),
        'distributed' => static fn (PDO $d) => $d->exec("XA START 'left'"),
        'one-transaction' => static fn (PDO $d) => $d->exec('SET TRANSACTION READ ONLY') + $d->exec('START TRANSACTION'),
        'role' => static fn (PDO $d) => $d->exec('SET ROLE visitor'),
        'no-role' => static fn (PDO $d) => $d->exec('SET ROLE NONE'),
        'found-rows' => static fn (PDO $d) => rows($d, 'SELECT SQL_CALC_FOUND_ROWS seq FROM seq_1_to_77 LIMIT 1'),
        'warning' => static fn (PDO $d) => rows($d, "SELECT CAST('secret' AS INT)"),
        'error' => static fn (PDO $d) => works($d, 'SELECT secret'),
        'profile' => static fn (PDO $d) => $d->exec('SET profiling = 1') + (int) works($d, "SELECT 'secret'")
            + $d->exec('SET profiling = 0'),
        'profiling' => static fn (PDO $d) => $d->exec('SET profiling = 1') + (int) works($d, "SELECT 'secret'"),
        'trace' => static fn (PDO $d) => $d->exec("SET optimizer_trace = 'enabled=on'") + (int) works($d, "SELECT 'secret'"),
        'sequence' => static fn (PDO $d) => rows($d, 'SELECT NEXTVAL(reactor.counted)'),
        'next-id' => static fn (PDO $d) => $d->exec('SET insert_id = 4711'),
        'clock' => static fn (PDO $d) => $d->exec('SET timestamp = 1'),
        'handler' => static fn (PDO $d) => $d->exec('HANDLER rods OPEN AS left_open'),
    ],
    'pgsql' => [
        'variable' => static fn (PDO $d) => $d->exec("SET reactor.leftover = 'something'"),
        'path' => static fn (PDO $d) => $d->exec('SET search_path = pg_catalog, public'),
        'role' => static fn (PDO $d) => $d->exec('SET ROLE pg_monitor'),
        'name' => static fn (PDO $d) => $d->exec("SET application_name = 'left'"),
        'encoding' => static fn (PDO $d) => $d->exec("SET client_encoding = 'LATIN2'"),
        'timeout' => static fn (PDO $d) => $d->exec('SET statement_timeout = 12345'),
        'temporary' => static fn (PDO $d) => $d->exec('CREATE TEMPORARY TABLE temporary (n INT)'),
        'prepared' => static fn (PDO $d) => $d->exec('PREPARE left_over AS SELECT 1'),
        'cursor' => static fn (PDO $d) => $d->exec('DECLARE held CURSOR WITH HOLD FOR SELECT 1'),
        'listen' => static fn (PDO $d) => $d->exec('LISTEN something'),
        'lock' => static fn (PDO $d) => rows($d, 'SELECT pg_advisory_lock(7)'),
        'sequence' => static fn (PDO $d) => rows($d, "SELECT nextval('numbers')"),
        'transaction' => static fn (PDO $d) => $d->exec('BEGIN') + $d->exec("INSERT INTO rods VALUES ('x')"),
        'authorization' => static fn (PDO $d) => $d->exec('SET SESSION AUTHORIZATION pg_monitor'),
        'no-role' => static fn (PDO $d) => $d->exec('SET ROLE NONE'),
        'characteristics' => static fn (PDO $d) => $d->exec(
            'SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY'),
        'function' => static fn (PDO $d) => $d->exec(
            "CREATE FUNCTION pg_temp.left_over() RETURNS INT LANGUAGE sql AS 'SELECT 1'"),
        'large-object' => static fn (PDO $d) => $d->exec('BEGIN') + (int) works($d, 'SELECT lo_open(lo_create(0), 131072)'),
        'failed' => static fn (PDO $d) => $d->exec('BEGIN') + (int) works($d, 'SELECT nothing'),
    ],
    'redis' => [
        'database' => static fn (Redis $r) => $r->rawCommand('SELECT', '5'),
        'name' => static fn (Redis $r) => $r->rawCommand('CLIENT', 'SETNAME', 'left'),
        'channel' => static fn (Redis $r) => $r->rawCommand('SUBSCRIBE', 'something'),
        'pattern' => static fn (Redis $r) => $r->rawCommand('PSUBSCRIBE', 'some*'),
        'shard' => static fn (Redis $r) => $r->rawCommand('SSUBSCRIBE', 'something'),
        'multi' => static fn (Redis $r) => $r->rawCommand('MULTI'),
        'tracking' => static fn (Redis $r) => $r->rawCommand('CLIENT', 'TRACKING', 'ON', 'BCAST'),
        'protocol' => static function (Redis $r): void {
            try {
                $r->rawCommand('HELLO', '3');
            } catch (RedisException) {
                // Its answer is in words that the client does not know.
            }
        },
        'monitor' => static fn (Redis $r) => $r->rawCommand('MONITOR'),
        'eviction' => static fn (Redis $r) => $r->rawCommand('CLIENT', 'NO-EVICT', 'ON'),
        'user' => static fn (Redis $r) => $r->rawCommand('ACL', 'SETUSER', 'visitor', 'on', 'nopass', '+@all', '~*')
            && $r->rawCommand('AUTH', 'visitor', ''),
        'watch' => static function (Redis $r): void {
            $r->rawCommand('WATCH', 'watched');
            $other = new Redis();
            $other->connect('127.0.0.1', (int) getenv('REDIS'));
            $other->auth(getenv('PASSWORD'));
            $other->select(3);
            $other->incr('watched');
        },
    ],
];

header('Content-Type: application/json');
$on = $_GET['on'] ?? '';
$database = $on !== '' ? $on() : null;
try {
    echo json_encode(match ($_GET['do']) {
        'list' => array_map(array_keys(...), $leave),
        'see' => $see[$on]($database),
        // Whether it can be seen at all: but for what ends the conversation, or is in it already.
        'leave' => [$leave[$on][$_GET['what']]($database), isset($_GET['blind']) ? null : $see[$on]($database)],
        'random' => [bin2hex(openssl_random_pseudo_bytes(8)), mt_rand(), getmypid()],
        // Two requests that want the same random numbers: the second one sees what the first has
        // left.
        'seed' => [works($database, $on === 'mysql' ? 'SET rand_seed1 = 5, rand_seed2 = 6' : 'SELECT setseed(0.5)')],
        'draw' => rows($database, $on === 'mysql' ? 'SELECT RAND()' : 'SELECT random()')[0],
        // Every script of this connection is a debugging session from now on.
        'debug' => [$database->rawCommand('SCRIPT', 'DEBUG', 'YES')],
        'kill' => [works($database, 'KILL CONNECTION_ID()')],
        // An answer that nobody reads, and that looks like the one to a reset.
        'unread' => [kept_object()->query('DO SLEEP(0.2)', MYSQLI_ASYNC)],
        'object' => kept_object()->query('SELECT CONNECTION_ID()')->fetch_row(),
        'counted' => counted_by_application(),
        'held' => held_by_application((int) ($_GET['visitor'] ?? 0)),
        'chosen' => chosen_object()->query('SELECT CONNECTION_ID(), DATABASE()')->fetch_row(),
        'elsewhere' => [chosen_object()->select_db('information_schema')],
        'forget' => [($kept = kept_object()) && $kept->close()],
        'endless' => (static function () use ($database): array {
            $database->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, false);
            $GLOBALS['result'] = $database->query('SELECT seq FROM seq_1_to_100000');
            $GLOBALS['result']->fetch();
            match ($_GET['by']) {
                'exit' => exit('[1]'),
                'memory' => str_repeat('x', PHP_INT_MAX >> 4),
                'limit' => (static function (): never {
                    set_time_limit(1);
                    while (true) {
                    }
                })(),
                'crash' => posix_kill(posix_getpid(), SIGKILL),
            };
        })(),
        'close' => (static function (): array {
            $libc = FFI::cdef('int close(int fd);');
            foreach (glob('/proc/self/fd/*') as $link) {
                $number = (int) basename($link);
                if ($number > 2 && peer_of($number) === sprintf(':%04X', getenv('PORT'))) {
                    return [$libc->close($number)];
                }
            }

            return [];
        })(),
    });
} catch (PDOException|mysqli_sql_exception $failure) {
    http_response_code(500);
    echo json_encode($failure->getMessage());
}
