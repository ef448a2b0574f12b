<?php

// Debian installs every Symfony component below /usr/share/php, which is in PHP's default include
// path, and gives each its own class loader; a bundle's loader pulls in the components that it
// needs.
require_once 'Symfony/Bundle/FrameworkBundle/autoload.php';
require_once 'Symfony/Bundle/TwigBundle/autoload.php';

// From version 6 on Symfony asks Composer which packages are there for good. Here they are
// Debian's, and all of them are.
if (!class_exists('Composer\InstalledVersions')) {
    require __DIR__.'/InstalledVersions.php';
}

spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'App\\')) {
        require __DIR__.'/src/'.strtr(substr($class, 4), '\\', '/').'.php';
    }
});
