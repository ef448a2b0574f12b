<?php

// What applications talk to services with, as Debian packages it. Each way asks its service once,
// which answers when the test lets it, and says the token that the answer had.

require 'Symfony/Component/HttpClient/autoload.php';
require 'GuzzleHttp/autoload.php';
require 'Doctrine/DBAL/autoload.php';
require 'Predis/autoload.php';
require 'libphp-phpmailer/autoload.php';

$ways = array_merge(
    require __DIR__.'/http.php',
    require __DIR__.'/sql.php',
    require __DIR__.'/redis.php',
    require __DIR__.'/mail.php',
);

tokamak_handle_request(static function () use ($ways): void {
    header('Content-Type: text/plain');
    try {
        echo $ways[$_GET['way']]($_GET['token']);
    } catch (Throwable $failure) {
        http_response_code(500);
        echo $failure::class, ': ', $failure->getMessage();
    }
});
