<?php

// The empty endpoint as a server of Swoole: swoole.php PORT PROCESSES

$server = new Swoole\Http\Server('127.0.0.1', (int) $argv[1], SWOOLE_PROCESS);
$server->set([
    'worker_num' => (int) $argv[2],
    'backlog' => 4096,
    'log_level' => SWOOLE_LOG_WARNING,
]);
$server->on('request', static function ($request, $response): void {
    $response->header('Content-Type', 'application/json');
    $response->end('{"errno":0,"errmsg":"success","data":"e"}');
});
$server->start();
