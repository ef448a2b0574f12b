<?php

// Requests, or coroutines of one request, that open the same persistent connection while all of
// them are under way. Each says which connection it got, and what was wrong with its answers.

use function Tokamak\all;

final class Meeting
{
    /** How many have come, by case and round. */
    public static array $come = [];
}

$dsn = fn (string $driver, string $port) => "$driver:host=127.0.0.1;port=$port;dbname=reactor";
$pdo = fn (string $dsn) => new PDO(
    $dsn,
    'reactor',
    getenv('PASSWORD'),
    [PDO::ATTR_PERSISTENT => true]
);
$lines = function ($stream, string $commands, int $count): array {
    fwrite($stream, $commands);

    return array_map(fn () => trim(fgets($stream)), range(1, $count));
};

// [open, which connection it is, ask for a number, begin, end]
$cases = [
    'PDO of MariaDB' => [
        fn () => $pdo($dsn('mysql', getenv('MARIADB'))),
        fn ($link) => $link->query('SELECT CONNECTION_ID()')->fetchColumn(),
        fn ($link, $n) => $link->query("SELECT $n, SLEEP(0.003)")->fetchColumn(),
        fn ($link) => $link->beginTransaction(),
        fn ($link) => $link->commit(),
    ],
    'PDO of PostgreSQL' => [
        fn () => $pdo($dsn('pgsql', getenv('POSTGRESQL'))),
        fn ($link) => $link->query('SELECT pg_backend_pid()')->fetchColumn(),
        fn ($link, $n) => $link->query("SELECT $n FROM pg_sleep(0.003)")->fetchColumn(),
        fn ($link) => $link->beginTransaction(),
        fn ($link) => $link->commit(),
    ],
    'pgsql' => [
        fn () => pg_pconnect(
            'host=127.0.0.1 dbname=reactor user=reactor port='.getenv('POSTGRESQL')
            ." password='".getenv('PASSWORD')."'"
        ),
        fn ($link) => pg_fetch_result(pg_query($link, 'SELECT pg_backend_pid()'), 0, 0),
        fn ($link, $n) => pg_fetch_result(pg_query($link, "SELECT $n FROM pg_sleep(0.003)"), 0, 0),
        fn ($link) => pg_query($link, 'BEGIN'),
        fn ($link) => pg_query($link, 'COMMIT'),
    ],
    'mysqli' => [
        fn () => new mysqli(
            'p:127.0.0.1', 'reactor', getenv('PASSWORD'), 'reactor', (int) getenv('MARIADB')
        ),
        fn ($link) => $link->query('SELECT CONNECTION_ID()')->fetch_column(),
        fn ($link, $n) => $link->query("SELECT $n, SLEEP(0.003)")->fetch_column(),
        fn ($link) => $link->begin_transaction(),
        fn ($link) => $link->commit(),
    ],
    'Redis' => [
        function () {
            $redis = new Redis();
            $redis->pconnect('127.0.0.1', (int) getenv('REDIS'));
            $redis->auth(getenv('PASSWORD'));

            return $redis;
        },
        fn ($link) => $link->client('ID'),
        function ($link, $n) {
            $link->rawCommand('BLPOP', 'nothing', '0.003');

            return $link->echo("$n");
        },
        fn ($link) => null,
        fn ($link) => null,
    ],
    'pfsockopen' => [
        fn () => pfsockopen('127.0.0.1', (int) getenv('REDIS')),
        fn ($link) => $lines($link, 'AUTH "'.getenv('PASSWORD')."\"\r\nCLIENT ID\r\n", 2)[1],
        fn ($link, $n) => $lines($link, "BLPOP nothing 0.003\r\nECHO $n\r\n", 3)[2],
        fn ($link) => null,
        fn ($link) => null,
    ],
];

$use = function (array $case, string $meeting, int $count, int $n): string {
    [$open, $id, $ask, $begin, $end] = $case;
    $link = $open();
    $begin($link);
    $found = $id($link);
    Meeting::$come[$meeting] = (Meeting::$come[$meeting] ?? 0) + 1;
    while (Meeting::$come[$meeting] < $count) {
        usleep(1000);
    }
    $wrong = '';
    for ($i = 0; $i < 10; $i++) {
        $number = 1000 * $n + $i;
        $answer = $ask($link, $number);
        $wrong .= (int) $answer === $number ? '' : " $number: ".var_export($answer, true);
    }
    $end($link);

    return "$found$wrong";
};

while (tokamak_handle_request(function () use ($cases, $use) {
    $case = $cases[$_GET['case']];
    $meeting = $_GET['case'].$_GET['round'];
    $tasks = array_map(
        fn ($n) => fn () => $use($case, $meeting, (int) $_GET['count'], (int) $n),
        explode(',', $_GET['numbers'])
    );
    echo implode("\n", count($tasks) === 1 ? [$tasks[0]()] : all($tasks));
})) {
}
