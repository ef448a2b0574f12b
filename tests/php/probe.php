<?php
// What pollute.php changes.
header('Content-Type: application/json');
$handler = set_error_handler(null);
restore_error_handler();
$exceptions = set_exception_handler(null);
restore_exception_handler();
echo json_encode([
    'ini' => [ini_get('precision'), error_reporting(), ini_get('max_execution_time'), ini_get('display_errors')],
    'error_handlers' => [$handler !== null, $exceptions !== null, error_get_last()],
    'cwd' => getcwd(),
    'umask' => umask(),
    'locale' => setlocale(LC_ALL, '0'),
    'timezone' => date_default_timezone_get(),
    'encodings' => [mb_internal_encoding(), mb_substitute_character(), mb_language(), mb_regex_encoding()],
    'env' => getenv('POLLUTED'),
    'session' => [session_status(), session_id(), session_name(), $_SESSION ?? null],
    'superglobals' => [$_ENV['POLLUTED'] ?? null, $_SERVER['POLLUTED'] ?? null, $_GET, $_COOKIE, $_REQUEST],
    'buffers' => ob_get_level(),
    'headers' => array_values(preg_grep('/Polluted/', headers_list())),
    'status' => http_response_code(),
    'abort' => [ignore_user_abort(), connection_status()],
]);
