<?php

declare(strict_types=1);

// The same site where each request begins anew: classic mode, php-fpm.

require __DIR__.'/../src/site.php';

$database = Cms\connect(Cms\settings());
Cms\install($database);
Cms\respond($database);
