<?php error_reporting(E_ALL & ~E_DEPRECATED); ini_set("fatal_error_backtraces", 0); // 8.4, 8.5
// What is said by functions and handlers that run when the script is over.
if (PHP_VERSION_ID < 80400) set_exception_handler(static function () { echo 'never called'; });
match ($_GET['how']) {
    'internal' => register_shutdown_function('trigger_error', 'from nowhere'),
    'internal-fatal' => register_shutdown_function('trigger_error', 'from nowhere', E_USER_ERROR),
    'exception' => register_shutdown_function(static function () { throw new LogicException('late'); }),
    'exit' => register_shutdown_function(static function () { exit(' exit'); }),
    'again' => register_shutdown_function(static function () {
        register_shutdown_function(static function () { echo ' again'; });
    }),
    'buffer' => ob_start(static function (string $text) { trigger_error('in a buffer'); return $text; }),
    'buffer-exception' => ob_start(static function (string $text) { throw new LogicException('in a buffer'); }),
};
register_shutdown_function(static function () { echo ' second'; });
echo 'body';
