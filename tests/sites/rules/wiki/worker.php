<?php
while (tokamak_handle_request(static function (): void {
    require $_SERVER['SCRIPT_FILENAME'];
})) {
}
