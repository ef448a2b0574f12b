<?php
// What asks a database that is there: `service` is its name, PORT and PASSWORD are in the
// environment. The user and the database are called reactor. Each has two rows, one that connects for each visitor, and one whose boot does.
$ways = [
    'redis' => [
        'with' => ['igbinary'],
        'service' => 'redis',
        'connect' => static function () {
            $redis = new Redis();
            $redis->connect('127.0.0.1', (int) getenv('PORT'));
            $redis->auth(getenv('PASSWORD'));
            return $redis;
        },
        'ask' => static fn (Redis $redis) => [$redis->set('works', '1'), $redis->get('works')],
        'is' => [true, '1'],
    ],
    'mysqli' => [
        'with' => ['mysqlnd'],
        'service' => 'mariadb',
        'connect' => static fn () => new mysqli('127.0.0.1', 'reactor', getenv('PASSWORD'), 'reactor', (int) getenv('PORT')),
        'ask' => static fn (mysqli $database) => $database->execute_query('SELECT concat(?, ?)', ['a', 'b'])->fetch_row(),
        'is' => ['ab'],
    ],
    'pdo_mysql' => [
        'with' => ['mysqlnd', 'pdo'],
        'service' => 'mariadb',
        'connect' => static fn () => new PDO('mysql:host=127.0.0.1;dbname=reactor;port=' . getenv('PORT'), 'reactor', getenv('PASSWORD')),
        'ask' => static fn (PDO $database) => $database->query('SELECT 7')->fetchColumn(),
        'is' => 7,
    ],
    'pgsql' => [
        'service' => 'postgresql',
        'connect' => static fn () => pg_connect('host=127.0.0.1 dbname=reactor user=reactor port=' . getenv('PORT') . " password='" . getenv('PASSWORD') . "'"),
        'ask' => static fn ($database) => pg_fetch_result(pg_query_params($database, 'SELECT $1::int + 1', [6]), 0, 0),
        'is' => '7',
    ],
    'pdo_pgsql' => [
        'with' => ['pdo'],
        'service' => 'postgresql',
        'connect' => static fn () => new PDO('pgsql:host=127.0.0.1;dbname=reactor;port=' . getenv('PORT'), 'reactor', getenv('PASSWORD')),
        'ask' => static fn (PDO $database) => $database->query('SELECT 7')->fetchColumn(),
        'is' => 7,
    ],
];
$rows = [];
foreach ($ways as $name => $way) {
    $row = ['module' => $name] + $way;
    $rows[$name] = ['use' => static fn () => $way['ask']($way['connect']())] + $row;
    $rows["$name, connected by the boot"] = ['make' => $way['connect'], 'use' => $way['ask']] + $row;
}
return $rows;
