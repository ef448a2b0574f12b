<?php
// Changes everything that the server resets between requests, and leaves a session open.
ini_set('precision', '4');
error_reporting(E_ERROR);
set_time_limit(77);
ini_set('display_errors', '0');
set_error_handler(static fn (): bool => true);
set_error_handler(static fn (): bool => false);
set_exception_handler(static fn () => null);
@trigger_error('polluted', E_USER_NOTICE);
chdir('/');
umask(0077);
setlocale(LC_ALL, 'C.UTF-8', 'C.utf8');
date_default_timezone_set('Asia/Tokyo');
mb_internal_encoding('ISO-8859-1');
mb_substitute_character(0x3f + 1);
mb_language('ja');
mb_regex_encoding('EUC-JP');
putenv('POLLUTED=yes');
$_ENV['POLLUTED'] = $_SERVER['POLLUTED'] = $_GET['POLLUTED'] = $_COOKIE['POLLUTED'] = $_REQUEST['POLLUTED'] = 'yes';
session_name('OTHER');
session_id('pollutedsession');
session_start();
$_SESSION['polluted'] = 'yes';
header('X-Polluted: yes');
http_response_code(418);
ignore_user_abort(!ignore_user_abort());
register_shutdown_function(static function (): void {
    echo ' shut down';
});
ob_start();
ob_start();
echo 'polluted';
