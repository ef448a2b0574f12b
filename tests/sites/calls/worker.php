<?php
require __DIR__ . '/functions.php';

while (tokamak_handle_request(static function (): void {
    $_GET['do']();
    echo "done\n";
})) {
}
