<?php

require 'FastRoute/autoload.php';

$routes = FastRoute\simpleDispatcher(static function (FastRoute\RouteCollector $add): void {
    for ($number = 0; $number < 200; $number++) {
        $add->addRoute('GET', "/section$number/{name}[/{id:\\d+}]", "handler $number");
    }
});
echo $routes->dispatch('GET', '/section150/page/7')[1];
