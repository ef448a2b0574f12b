<?php
if (isset($_GET['note'])) {
    error_log("asked for $_SERVER[REQUEST_URI] of $_SERVER[SERVER_NAME]:$_SERVER[SERVER_PORT] by "
        . ($_SERVER['HTTP_X_FORWARDED_PROTO'] ?? 'none'));
}
if (isset($_GET['decline']) && defined('BOOTED')) {
    ob_start();
    echo 'nobody sees this';
    var_dump(tokamak_decline());
}
if (isset($_GET['late'])) {
    echo 'too late: ';
    while (ob_get_level() > 0) {
        ob_end_flush();
    }
    flush();
    var_dump(tokamak_decline());
}
echo defined('BOOTED') ? 'image ' . trim(BOOTED) : 'classic', ' ', $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['SERVER_NAME'], ' ',
    file_get_contents('php://input'), ' ', require __DIR__ . '/old.php';
