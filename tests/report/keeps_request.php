<?php

// Of the shape of Slim 3: the container keeps the first request, and all that follow are answered as
// it was.

$container = new ArrayObject();
$handler = static function () use ($container): void {
    $container['request'] ??= strtok($_SERVER['REQUEST_URI'], '?');
    echo 'This is ', $container['request'];
};

while (tokamak_handle_request($handler)) {
}
