<?php

// A boot script of sealed mode, which reads what another visitor would find otherwise.

$language = $_COOKIE['language'] ?? 'en';
$host = $_SERVER['HTTP_HOST'] ?? 'localhost';
$started = microtime(true);
$key = bin2hex(random_bytes(8));
$mode = getenv('APP_MODE');
tokamak_substitute_file(__DIR__ . '/index.php', __DIR__ . '/run.php');
