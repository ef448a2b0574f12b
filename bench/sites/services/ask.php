<?php

// Scripts that ask somebody else: whom, stands in places.php, which the driver writes.
//
// Connections are kept in lists, of which a request takes one for as long as it asks: in worker
// mode there is one of each, and in async mode there are as many as requests ask at once. Where a
// process does not outlive its request, the lists are empty each time.

require __DIR__.'/places.php';

function over_http(): string
{
    static $idle = [];
    $call = array_pop($idle);
    if ($call === null) {
        $call = curl_init('http://'.SERVICE.'/');
        curl_setopt($call, CURLOPT_RETURNTRANSFER, true);
    }
    $answer = curl_exec($call);
    $idle[] = $call;

    return $answer;
}

function over_stream(): string
{
    static $idle = [];
    $stream = array_pop($idle) ?? stream_socket_client('tcp://'.SERVICE);
    fwrite($stream, "GET / HTTP/1.1\r\nHost: ".SERVICE."\r\n\r\n");
    $length = 0;
    while (($line = fgets($stream)) !== "\r\n") {
        if (strncasecmp($line, 'Content-Length:', 15) === 0) {
            $length = (int) substr($line, 15);
        }
    }
    $answer = fread($stream, $length);
    $idle[] = $stream;

    return $answer;
}

function redis(): Redis
{
    $redis = new Redis();
    $redis->pconnect(REDIS);

    return $redis;
}

function from_redis(): string
{
    static $idle = [];
    $redis = array_pop($idle) ?? redis();
    $answer = $redis->get('answer');
    $idle[] = $redis;

    return $answer;
}

function answer(): void
{
    header('Content-Type: application/json');
    echo match ($_GET['ask'] ?? '') {
        'http' => over_http(),
        'stream' => over_stream(),
        'redis' => from_redis(),
        default => '{"errno":0,"errmsg":"success","data":"e"}',
    };
}
