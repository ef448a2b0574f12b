<?php

// Before the image: what phpMyAdmin's index.php does before it looks at the request, the classes
// that its pages need, and the list of its services. Nothing of it depends on the visitor or on the
// settings.

use PhpMyAdmin\Core;

define('ROOT_PATH', (getenv('PHPMYADMIN') ?: '/usr/share/phpmyadmin') . '/');
define('PHPMYADMIN', true);

require_once ROOT_PATH . 'libraries/constants.php';
require_once AUTOLOAD_FILE;

// Of every page; what else one needs is loaded by the request, as ever.
foreach (file(__DIR__ . '/classes', FILE_IGNORE_NEW_LINES | FILE_SKIP_EMPTY_LINES) as $class) {
    class_exists($class) || interface_exists($class) || trait_exists($class);
}

$tokamak_services = Core::getContainerBuilder();

tokamak_substitute_file(ROOT_PATH . 'libraries/services_loader.php', __DIR__ . '/services.php');
tokamak_substitute_file(ROOT_PATH . 'index.php', __DIR__ . '/run.php');
