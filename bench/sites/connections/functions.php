<?php

// How each database is connected to: `persistent` as php-fpm's users do it, or anew for each
// request.

require __DIR__.'/places.php'; // the driver writes it

function pdo(string $dsn, bool $persistent): PDO
{
    return new PDO($dsn, 'bench', PASSWORD, [PDO::ATTR_PERSISTENT => $persistent]);
}

function redis(string $socket, bool $persistent): Redis
{
    $redis = new Redis();
    $persistent ? $redis->pconnect($socket) : $redis->connect($socket);

    return $redis;
}
