<?php

// Before the image: what `public/index.php` does before it looks at the request, and the kernel's
// bootstrap.

use Illuminate\Contracts\Http\Kernel;
use Illuminate\Http\Request;

require __DIR__ . '/autoload.php';

// One request through an application that is thrown away: it loads the classes that pages need, and
// what it leaves in its container (a session with its CSRF token, the request) goes with it.
(static function (): void {
    $app = require __DIR__ . '/bootstrap/app.php';
    $kernel = $app->make(Kernel::class);
    $kernel->bootstrap();
    $app->make('config')->set('session.driver', 'array'); // nothing is to stay on disk
    $kernel->terminate($request = Request::create('/login'), $kernel->handle($request));
})();

$app = require __DIR__ . '/bootstrap/app.php';
// For providers that ask; each request brings its own.
$app->instance('request', Request::create('/'));
$kernel = $app->make(Kernel::class);
$kernel->bootstrap();
// A route's pattern is compiled when a request is compared with it for the first time: here, for all.
foreach ($app->make('router')->getRoutes() as $route) {
    $route->matches(Request::create('/'));
}

tokamak_substitute_file(__DIR__ . '/public/index.php', __DIR__ . '/run.php');
