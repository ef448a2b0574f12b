<?php

// The worker script: one boot, many requests.
//
// It does what Symfony's own runner for FrankenPHP does (symfony/runtime, which Debian 12 does not
// package), so it shows that a server which offers frankenphp_handle_request() runs Symfony
// applications unchanged.

use App\Kernel;
use Symfony\Component\HttpFoundation\Request;

if (!($_SERVER['FRANKENPHP_WORKER'] ?? false)) {
    http_response_code(500);
    exit("worker.php is a worker script; requests of classic mode go to public/index.php\n");
}

require __DIR__.'/autoload.php';

$kernel = new Kernel('prod', false);

// A client that hangs up must not end the worker.
ignore_user_abort(true);

// What the server said about the process holds for every request; headers of the boot request do
// not.
$boot = array_filter($_SERVER, static fn (string $name): bool => !str_starts_with($name, 'HTTP_'), \ARRAY_FILTER_USE_KEY);
$boot['APP_RUNTIME_MODE'] = 'web=1&worker=1';

$request = $response = null;
$handler = static function () use ($kernel, $boot, &$request, &$response): void {
    $_SERVER += $boot;

    $request = Request::createFromGlobals();
    $response = $kernel->handle($request);
    $response->send();
};

// Starting afresh now and then bounds what a leak can grow to; 0 means never.
$limit = (int) ($_SERVER['FRANKENPHP_LOOP_MAX'] ?? 500);
$served = 0;
do {
    $more = frankenphp_handle_request($handler);

    // After the response has left, so that no client waits for it.
    if ($request && $response) {
        $kernel->terminate($request, $response);
    }
    gc_collect_cycles();
} while ($more && (0 >= $limit || ++$served < $limit));
