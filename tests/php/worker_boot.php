<?php
// A worker script that sets things up before its loop: a reset goes back to what it has set.
ini_set('precision', '9');
error_reporting(32767 & ~E_NOTICE); // a number, because E_ALL is another one since PHP 8.4
set_error_handler(static fn (): bool => false);
date_default_timezone_set('Europe/Paris');
mb_internal_encoding('ISO-8859-15');
umask(0027);
chdir('/usr');
putenv('BOOTED=yes');
$_ENV['POLLUTED'] = 'at boot';
$handler = static function (): void {
    require $_SERVER['SCRIPT_FILENAME'];
};
while (tokamak_handle_request($handler)) {
}
