<?php

// Two requests that share one connection by mistake. The other one holds a lock by a connection of
// its own; the owner waits for that lock on the shared one; then the other one uses what is shared
// in all ways that there are, and gives the lock back.

final class Shared
{
    /** What the owner has made: the objects that are used by both. */
    public static array $all = [];
    public static bool $is_locked = false;
    public static bool $owner_waits = false;
}

$mysql = fn () => new mysqli('127.0.0.1', 'reactor', getenv('PASSWORD'), 'reactor', (int) getenv('MARIADB'));
$pdo = fn (string $driver, string $port) => new PDO(
    "$driver:host=127.0.0.1;port=$port;dbname=reactor",
    'reactor',
    getenv('PASSWORD'),
    [PDO::ATTR_EMULATE_PREPARES => false]
);
$postgresql = fn () => pg_connect(
    'host=127.0.0.1 dbname=reactor user=reactor port='.getenv('POSTGRESQL')." password='".getenv('PASSWORD')."'",
    PGSQL_CONNECT_FORCE_NEW
);
$redis = function () {
    $redis = new Redis();
    $redis->connect('127.0.0.1', (int) getenv('REDIS'));
    $redis->auth(getenv('PASSWORD'));

    return $redis;
};

$of_mysql = [
    fn () => $pdo('mysql', getenv('MARIADB')),
    fn ($own) => $own->query("SELECT GET_LOCK('shared', 60)")->fetchAll(),
    fn ($own) => $own->query("SELECT RELEASE_LOCK('shared')")->fetchAll(),
];
$of_postgresql = [
    fn () => $pdo('pgsql', getenv('POSTGRESQL')),
    fn ($own) => $own->query('SELECT pg_advisory_lock(1)')->fetchAll(),
    fn ($own) => $own->query('SELECT pg_advisory_unlock(1)')->fetchAll(),
];
$locked_mysql = "SELECT CONCAT('owner', GET_LOCK('shared', 60), RELEASE_LOCK('shared'))";
$locked_postgresql = "SELECT 'owner11' FROM pg_advisory_lock(1), pg_advisory_unlock(1)";

$tries_of_mysqli = [
    'query' => fn () => Shared::$all['link']->query('SELECT 1'),
    'mysqli_query' => fn () => mysqli_query(Shared::$all['link'], 'SELECT 1'),
    'async' => fn () => mysqli_query(Shared::$all['link'], 'SELECT 1', MYSQLI_ASYNC),
    'prepare' => fn () => Shared::$all['link']->prepare('SELECT 1'),
    'new statement' => fn () => new mysqli_stmt(Shared::$all['link'], 'SELECT 1'),
    'execute' => fn () => Shared::$all['statement']->execute(),
    'mysqli_stmt_execute' => fn () => mysqli_stmt_execute(Shared::$all['statement']),
    'result' => fn () => Shared::$all['result']->fetch_row(),
    'mysqli_close' => fn () => mysqli_close(Shared::$all['link']),
    'close' => fn () => Shared::$all['link']->close(),
];
$tries_of_pdo = [
    'query' => fn () => Shared::$all['link']->query('SELECT 1'),
    'exec' => fn () => Shared::$all['link']->exec('SELECT 1'),
    'prepare' => fn () => Shared::$all['link']->prepare('SELECT 1'),
    'beginTransaction' => fn () => Shared::$all['link']->beginTransaction(),
    'execute' => fn () => Shared::$all['statement']->execute(),
    'fetch' => fn () => Shared::$all['result']->fetch(),
];

// [make, what the owner waits in, what the other one tries, [a connection of its own, lock, unlock]]
$make_mysqli = function () use ($mysql) {
    $link = $mysql();
    $statement = $link->prepare("SELECT 'other'");
    $result = $link->query("SELECT 'other' UNION SELECT 'more'");

    return compact('link', 'statement', 'result') + ['second' => mysqli_prepare($link, "SELECT 'second'")];
};
$make_pdo = fn (array $of) => function () use ($of) {
    $link = $of[0]();
    $statement = $link->prepare("SELECT 'other'");
    $statement->execute();
    $statement->fetchAll();
    $result = $link->query("SELECT 'other' UNION SELECT 'more'");

    return compact('link', 'statement', 'result') + ['second' => $link->prepare('SELECT 2')];
};
$query_pdo = fn (string $sql) => fn ($all) => $all['link']->query($sql)->fetchColumn();
$execute_pdo = fn (string $sql) => function ($all) use ($sql) {
    $statement = $all['link']->prepare($sql);
    $statement->execute();

    return $statement->fetchColumn();
};

$cases = [
    'mysqli' => [$make_mysqli, fn ($all) => $all['link']->query($locked_mysql)->fetch_column(), $tries_of_mysqli, $of_mysql],
    'statement of mysqli' => [
        $make_mysqli,
        function ($all) use ($locked_mysql) {
            $statement = mysqli_prepare($all['link'], $locked_mysql);
            mysqli_stmt_execute($statement);

            return $statement->get_result()->fetch_column();
        },
        $tries_of_mysqli,
        $of_mysql,
    ],
    'PDO of MariaDB' => [$make_pdo($of_mysql), $query_pdo($locked_mysql), $tries_of_pdo, $of_mysql],
    'statement of MariaDB' => [$make_pdo($of_mysql), $execute_pdo($locked_mysql), $tries_of_pdo, $of_mysql],
    'PDO of PostgreSQL' => [$make_pdo($of_postgresql), $query_pdo($locked_postgresql), $tries_of_pdo, $of_postgresql],
    'statement of PostgreSQL' => [$make_pdo($of_postgresql), $execute_pdo($locked_postgresql), $tries_of_pdo, $of_postgresql],
    'pgsql' => [
        fn () => ['link' => $link = $postgresql(), 'result' => pg_query($link, 'SELECT 1')],
        fn ($all) => pg_fetch_result(pg_query($all['link'], $locked_postgresql), 0, 0),
        [
            'pg_query' => fn () => pg_query(Shared::$all['link'], 'SELECT 1'),
            'pg_send_query' => fn () => pg_send_query(Shared::$all['link'], 'SELECT 1'),
            'pg_get_result' => fn () => pg_get_result(Shared::$all['link']),
            'pg_query_params' => fn () => pg_query_params(Shared::$all['link'], 'SELECT $1', [1]),
            'pg_fetch_row' => fn () => pg_fetch_row(Shared::$all['result']),
            'pg_close' => fn () => pg_close(Shared::$all['link']),
        ],
        $of_postgresql,
    ],
    'Redis' => [
        fn () => ['link' => $redis()],
        fn ($all) => $all['link']->blPop('list', 60)[1],
        [
            'get' => fn () => Shared::$all['link']->get('key'),
            'multi' => fn () => Shared::$all['link']->multi(),
            'rawCommand' => fn () => Shared::$all['link']->rawCommand('PING'),
            'close' => fn () => Shared::$all['link']->close(),
        ],
        [$redis, fn ($own) => $own->del('list'), fn ($own) => $own->rPush('list', 'owner11')],
    ],
];

$own = function (array $case): void {
    [$make, $wait] = $case;
    while (!Shared::$is_locked) {
        usleep(1000);
    }
    $all = Shared::$all = $make();
    Shared::$owner_waits = true;
    $first = $wait($all);
    Shared::$owner_waits = false;
    echo $first;
};

$meddle = function (array $case): void {
    [, , $tries, [$open, $lock, $unlock]] = $case;
    $own = $open();
    $lock($own);
    Shared::$is_locked = true;
    while (!Shared::$owner_waits) {
        usleep(1000);
    }
    foreach ($tries as $what => $try) {
        try {
            $seen = 'got ' . get_debug_type($try());
        } catch (Tokamak\ConnectionInUse $refusal) {
            $names = '~^GET /\?who=other\S* calls .+ that GET /\?who=owner\S* waits in, in .*~';
            $seen = preg_replace($names, 'refused', $refusal->getMessage());
        } catch (Throwable $failure) {
            $seen = get_class($failure) . ': ' . $failure->getMessage();
        }
        echo "$what: $seen\n";
    }
    // Whatever the server is told when these are destroyed, it is not now.
    Shared::$all = [];
    Shared::$is_locked = false;
    $unlock($own);
};

while (tokamak_handle_request(function () use ($cases, $own, $meddle) {
    ($_GET['who'] === 'owner' ? $own : $meddle)($cases[$_GET['case']]);
})) {
}
