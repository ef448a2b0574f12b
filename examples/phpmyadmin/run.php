<?php

// For each request, in the place of index.php: what is there after the autoloader.

use PhpMyAdmin\Common;
use PhpMyAdmin\Routing;

global $route, $containerBuilder, $request;

Common::run();

Routing::callControllerForRoute($request, $route, Routing::getDispatcher(), $containerBuilder);
