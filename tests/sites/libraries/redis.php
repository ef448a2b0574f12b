<?php

// Clients of Redis. Each waits for an element of a list, of which there are as many as the test
// puts there, and then reads what it has stored before.

$port = (int) getenv('REDIS');
$password = getenv('PASSWORD');

$phpredis = static function (string $connect, string $token) use ($port, $password): string {
    $redis = new Redis();
    $redis->$connect('127.0.0.1', $port);
    $redis->auth($password);
    $redis->set($token, $token);
    $redis->blPop(['gate'], 40);

    return $redis->get($token);
};

return [
    'phpredis' => static fn (string $token) => $phpredis('connect', $token),
    // Lasting connections: one that is in use is not handed out.
    'phpredis persistent' => static fn (string $token) => $phpredis('pconnect', $token),
    'predis' => static function (string $token) use ($port, $password): string {
        $place = ['host' => '127.0.0.1', 'port' => $port, 'password' => $password];
        $redis = new Predis\Client($place);
        $redis->set($token, $token);
        $redis->blpop(['gate'], 40);

        return $redis->get($token);
    },
];
