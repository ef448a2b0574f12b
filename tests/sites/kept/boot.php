<?php

// Connections that each worker keeps: which ones says KEEP. `database()` and `redis()` are also how
// requests connect, as in any application with persistent connections.

function mysql(): PDO
{
    return new PDO(getenv('MYSQL'), 'reactor', getenv('PASSWORD'), [
        PDO::ATTR_PERSISTENT => true,
        PDO::ATTR_TIMEOUT => 2,
        PDO::MYSQL_ATTR_INIT_COMMAND => "SET time_zone = '+03:00'",
    ]);
}

function pgsql(): PDO
{
    return new PDO(getenv('PGSQL'), 'reactor', getenv('PASSWORD'), [
        PDO::ATTR_PERSISTENT => true,
        PDO::ATTR_EMULATE_PREPARES => true,
    ]);
}

function redis(): Redis
{
    $redis = new Redis();
    $redis->pconnect('127.0.0.1', (int) getenv('REDIS'));

    return $redis;
}

function kept_object(): mysqli
{
    static $database;

    return $database ??= new mysqli('127.0.0.1', 'reactor', getenv('PASSWORD'), 'reactor', (int) getenv('PORT'));
}

function link_to_postgresql(): PgSql\Connection
{
    $password = addcslashes(getenv('PASSWORD'), "'\\");

    return pg_pconnect(getenv('LINK')." user=reactor password='$password'");
}

function persistent_mysqli(): mysqli
{
    return new mysqli('p:127.0.0.1', 'reactor', getenv('PASSWORD'), 'reactor', (int) getenv('PORT'));
}

/**
 * Persistent connections in static variables, where a warm-up request leaves its own: which ones
 * they are, and what each says when it is told the visitor's number.
 */
function held_by_application(int $visitor): array
{
    static $mysql, $pgsql, $link, $mysqli;

    $mysql ??= mysql();
    $pgsql ??= pgsql();
    $link ??= link_to_postgresql();
    $mysqli ??= persistent_mysqli();

    return [
        $mysql->query("SELECT CONNECTION_ID(), $visitor")->fetch(PDO::FETCH_NUM),
        $pgsql->query("SELECT pg_backend_pid(), $visitor")->fetch(PDO::FETCH_NUM),
        pg_fetch_row(pg_query($link, "SELECT pg_backend_pid(), $visitor")),
        $mysqli->query("SELECT CONNECTION_ID(), $visitor")->fetch_row(),
    ];
}

/** The same of Redis, through a persistent connection and one that is not. */
function counted_by_application(): array
{
    static $kept, $plain;

    $kept ??= opened_redis(true);
    $plain ??= opened_redis(false);

    return [$kept->incr('kept'), $plain->incr('plain')];
}

function opened_redis(bool $is_persistent): Redis
{
    $redis = new Redis();
    $is_persistent ? $redis->pconnect('127.0.0.1', (int) getenv('REDIS')) : $redis->connect('127.0.0.1', (int) getenv('REDIS'));
    $redis->auth(getenv('PASSWORD'));

    return $redis;
}

/** Its database is chosen after the log-in. */
function chosen_object(): mysqli
{
    static $database;

    if (!$database) {
        $port = (int) getenv('PORT');
        $database = new mysqli('127.0.0.1', 'reactor', getenv('PASSWORD'), null, $port);
        $database->select_db('reactor');
    }

    return $database;
}

function rows(PDO $database, string $sql): array
{
    return $database->query($sql)->fetchAll(PDO::FETCH_NUM);
}

function works(PDO $database, string $sql): bool
{
    try {
        $database->query($sql)->fetchAll();

        return true;
    } catch (PDOException) {
        return false;
    }
}

/** ":PORT" of the peer, in the kernel's spelling. */
function peer_of(int $descriptor): ?string
{
    $link = (string) @readlink("/proc/self/fd/$descriptor");
    foreach (file('/proc/self/net/tcp') as $line) {
        $fields = preg_split('/\s+/', trim($line));
        if ($link === "socket:[{$fields[9]}]") {
            return strrchr($fields[2], ':');
        }
    }

    return null;
}

tokamak_keep_connections(static function (): void {
    // Seeds every generator, which must not be what requests find.
    openssl_random_pseudo_bytes(8);
    mt_rand();
    foreach (array_filter(explode(',', getenv('KEEP'))) as $what) {
        match ($what) {
            'mysql', 'pgsql' => $what()->exec($what === 'pgsql' ? "SET application_name = 'kept'" : 'SET @kept = 1'),
            'redis' => redis()->auth(getenv('PASSWORD')) && redis()->select(3),
            'object' => kept_object(),
            'mysqli' => persistent_mysqli()->query('SELECT 1'),
            'link' => pg_query(link_to_postgresql(), 'SELECT 1'),
            'chosen' => chosen_object(),
            'homeless' => new PDO('mysql:host=127.0.0.1;port='.getenv('PORT'), 'reactor', getenv('PASSWORD'), [
                PDO::ATTR_PERSISTENT => true,
            ]),
        };
    }
});
