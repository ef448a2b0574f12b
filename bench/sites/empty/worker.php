<?php

$handler = static function (): void {
    header('Content-Type: application/json');
    echo '{"errno":0,"errmsg":"success","data":"e"}';
};

while (tokamak_handle_request($handler)) {
}
