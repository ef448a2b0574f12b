<?php

// For each request, in the place of `public/index.php`. $app and $kernel are the boot's.

use Illuminate\Foundation\Bootstrap\HandleExceptions;
use Illuminate\Http\Request;

define('LARAVEL_START', microtime(true));

// The boot's shutdown function belongs to no request: this registers one that does.
$app->make(HandleExceptions::class)->bootstrap($app);
$response = $kernel->handle($request = Request::capture())->send();
$kernel->terminate($request, $response);
