<?php
// Each request includes the page that it asks for.
$handler = static function (): void {
    require $_SERVER['SCRIPT_FILENAME'];
};
while (tokamak_handle_request($handler)) {
}
