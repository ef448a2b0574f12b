<?php

// For each request, in the place of libraries/services_loader.php: the services that the boot has
// listed. Requests may change them, for the roll-back puts them back.

use Symfony\Component\DependencyInjection\ContainerBuilder;

return static function (ContainerBuilder $container): void {
    global $tokamak_services;

    $container->addDefinitions($tokamak_services->getDefinitions());
    $container->addAliases($tokamak_services->getAliases());
};
