<?php
while (tokamak_handle_request(static function (): void {
    require __DIR__ . '/index.php';
})) {
}
