<?php
// A boot script after which libuuid knows what every worker would go on from.
require_once __DIR__ . '/boot.php';
if (extension_loaded('uuid')) {
    uuid_create(UUID_TYPE_TIME);
}
