<?php
// For worker mode and sealed mode: what classic mode does in each request is done once, and the
// generators of random.php have been used when the first request comes.
require_once __DIR__ . '/boot.php';
require_once __DIR__ . '/generators.php';
random_values();
if (getenv('TLS_PORT') !== false) {
    greet_by_tls((int) getenv('TLS_PORT'));
}
Opened::all();
closedir(opendir(__DIR__)); // or readdir() would read on in a directory of the boot
while (tokamak_handle_request(static function (): void {
    require $_SERVER['SCRIPT_FILENAME'];
})) {
}
