<?php

// Reads at boot what another visitor, or another boot, would find otherwise.

$host = $_SERVER['HTTP_HOST'] ?? 'localhost';
$language = isset($_COOKIE['language']) ? 'chosen' : 'none';
$fields = count($_POST);
$body = file_get_contents('php://input');
$started = time();
$today = new DateTimeImmutable('today');
$stamp = date('Y-m-d');
$node = random_int(1, 6);
$mode = getenv('APP_MODE');
$cached = function_exists('apcu_fetch') && apcu_fetch('menu');

// The same for everybody, at any time.
$launch = new DateTimeImmutable('2020-02-02');
$day = date('Y-m-d', 86400);
$own = file_get_contents(__FILE__);

// Not the boot's.
while (tokamak_handle_request(static function (): void {
    echo $_SERVER['REQUEST_URI'], time() > 0, random_int(1, 6) > 0;
})) {
    microtime();
}
