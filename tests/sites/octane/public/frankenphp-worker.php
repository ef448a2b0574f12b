<?php

// A worker script of the shape of Laravel Octane's for FrankenPHP: it boots once, gives each
// request a copy of the application, answers errors itself, ends the request when the response has
// left, and itself after so many requests.

if (!($_SERVER['FRANKENPHP_WORKER'] ?? false) || !function_exists('frankenphp_handle_request')) {
    echo 'This is a worker script.';
    exit(1);
}

ignore_user_abort(true);
$base = $_ENV['APP_BASE_PATH'] ?? $_SERVER['APP_BASE_PATH'] ?? dirname(__DIR__);
require "$base/Application.php";

$application = new Application();
$most = $_ENV['MAX_REQUESTS'] ?? $_SERVER['MAX_REQUESTS'] ?? 1000;
set_time_limit((int) ($_ENV['REQUEST_MAX_EXECUTION_TIME'] ?? $_SERVER['REQUEST_MAX_EXECUTION_TIME'] ?? 30));

try {
    $handler = static function () use ($application): void {
        try {
            $sandbox = clone $application;
            ob_start();
            $answer = $sandbox->handle();
            ob_end_clean();
            header('Content-Type: application/json');
            echo $answer;
            fastcgi_finish_request();
            $sandbox->terminate();
        } catch (Throwable $problem) {
            error_log($problem->getMessage(), 4);
            http_response_code(500);
            header('Status: 500 Internal Server Error');
            header('Content-Type: text/plain');
            echo 'Internal Server Error';
        }
    };
    for ($count = 0; $count < $most && frankenphp_handle_request($handler); $count++) {
    }
} finally {
    gc_collect_cycles();
}
