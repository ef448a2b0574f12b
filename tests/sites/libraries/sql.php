<?php

// Drivers and a database library. The test holds a lock, and each query waits for it.

use Doctrine\DBAL\DriverManager;

$password = getenv('PASSWORD');
$ports = ['mysql' => (int) getenv('MARIADB'), 'pgsql' => (int) getenv('POSTGRESQL')];
$asks = [
    'mysql' => "SELECT IF(GET_LOCK('gate', 40) AND RELEASE_LOCK('gate'), ?, 'not let go')",
    'pgsql' => 'SELECT CAST(? AS text), pg_advisory_xact_lock_shared(1)',
];

$mysqli = static fn (): mysqli
    => new mysqli('127.0.0.1', 'reactor', $password, 'reactor', $ports['mysql']);

$pdo = static function (string $kind, string $token) use ($password, $ports, $asks): string {
    $dsn = "$kind:host=127.0.0.1;port=$ports[$kind];dbname=reactor";
    $asked = (new PDO($dsn, 'reactor', $password))->prepare($asks[$kind]);
    $asked->execute([$token]);

    return $asked->fetch(PDO::FETCH_NUM)[0];
};

$doctrine = static function (string $driver, string $kind, string $token) use (
    $password, $ports, $asks
): string {
    $database = DriverManager::getConnection([
        'driver' => $driver, 'host' => '127.0.0.1', 'port' => $ports[$kind],
        'dbname' => 'reactor', 'user' => 'reactor', 'password' => $password,
    ]);

    return $database->fetchOne($asks[$kind], [$token]);
};

return [
    'mysqli' => static fn (string $token)
        => $mysqli()->query(str_replace('?', "'$token'", $asks['mysql']))->fetch_row()[0],
    'mysqli prepared' => static function (string $token) use ($mysqli, $asks): string {
        // The statement does not keep its connection.
        $database = $mysqli();
        $asked = $database->prepare($asks['mysql']);
        $asked->execute([$token]);

        return $asked->get_result()->fetch_row()[0];
    },
    'pdo_mysql' => static fn (string $token) => $pdo('mysql', $token),
    'doctrine pdo_mysql' => static fn (string $token) => $doctrine('pdo_mysql', 'mysql', $token),
    'doctrine mysqli' => static fn (string $token) => $doctrine('mysqli', 'mysql', $token),
    'pg_query' => static function (string $token) use ($password, $ports, $asks): string {
        $place = "host=127.0.0.1 port=$ports[pgsql] dbname=reactor";
        $database = pg_connect(
            "$place user=reactor password='$password'",
            PGSQL_CONNECT_FORCE_NEW
        );
        $asked = pg_query_params($database, str_replace('?', '$1', $asks['pgsql']), [$token]);

        return pg_fetch_result($asked, 0, 0);
    },
    'pdo_pgsql' => static fn (string $token) => $pdo('pgsql', $token),
    'doctrine pdo_pgsql' => static fn (string $token) => $doctrine('pdo_pgsql', 'pgsql', $token),
];
