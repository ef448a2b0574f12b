<?php

// Scripts that ask somebody else: whom, stands in places.php, which the driver writes.

require __DIR__.'/places.php';

function over_http(): string
{
    // Kept where a process outlives its request: worker mode calls over one connection.
    static $call = null;
    if ($call === null) {
        $call = curl_init('http://'.SERVICE.'/');
        curl_setopt($call, CURLOPT_RETURNTRANSFER, true);
    }

    return curl_exec($call);
}

function redis(): Redis
{
    $redis = new Redis();
    $redis->pconnect(REDIS);

    return $redis;
}

function answer(): void
{
    header('Content-Type: application/json');
    echo match ($_GET['ask'] ?? '') {
        'http' => over_http(),
        'redis' => redis()->get('answer'),
        default => '{"errno":0,"errmsg":"success","data":"e"}',
    };
}
