<?php

// What Laravel's own skeleton has at this place: the application and what it is made of.

use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Http\Kernel;
use Illuminate\Foundation\Application;
use Illuminate\Foundation\Exceptions\Handler;

$app = new Application(dirname(__DIR__));
$app->useStoragePath(getenv('APP_STORAGE'));
$app->singleton(Kernel::class, App\Kernel::class);
$app->singleton(ExceptionHandler::class, Handler::class);

return $app;
