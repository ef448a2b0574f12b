<?php
// The one worker script of the behaviour tests: each request includes the script that it asks for.
$handler = static function (): void {
    require $_SERVER['SCRIPT_FILENAME'];
};
while (tokamak_handle_request($handler)) {
}
