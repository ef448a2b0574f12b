<?php

// The worker script of async mode: many requests at once, each with a kernel that no other request
// uses meanwhile.
//
// A kernel's container keeps what the current request is: the stack of requests, the router's
// context, the session, the user. Two requests that take turns in one kernel would find each other
// there. So a request takes a kernel that nobody uses, or boots one, and gives it back when it has
// ended. There are as many in the end as requests were ever under way at once; compiled code and
// the classes are there once for all.

use App\Kernel;
use Symfony\Component\HttpFoundation\Request;

require __DIR__.'/autoload.php';

// A client that hangs up must not end the worker.
ignore_user_abort(true);

// What the server said about the process holds for every request; headers of the boot request do
// not.
$is_of_process = static fn (string $name): bool => !str_starts_with($name, 'HTTP_');
$boot = array_filter($_SERVER, $is_of_process, \ARRAY_FILTER_USE_KEY);
$boot['APP_RUNTIME_MODE'] = 'web=1&worker=1';

// The first compiles the container if there is none yet, before requests come.
$first = new Kernel('prod', false);
$first->boot();
$free = [$first];

tokamak_handle_request(static function () use (&$free, $boot): void {
    $_SERVER += $boot;
    $kernel = array_pop($free) ?? new Kernel('prod', false);

    $request = Request::createFromGlobals();
    $response = $kernel->handle($request);
    $response->send();
    $kernel->terminate($request, $response);

    // Not after an exception or exit: then nobody knows what state the kernel is in.
    $free[] = $kernel;
});
