<?php

// Debian installs Laravel's packages below /usr/share/php, which is in PHP's default include path.
require_once 'Illuminate/autoload.php';

spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'App\\')) {
        require __DIR__ . '/app/' . strtr(substr($class, 4), '\\', '/') . '.php';
    }
});
