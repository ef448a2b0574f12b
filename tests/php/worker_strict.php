<?php
// As frameworks begin: every message is an exception, and nothing is left to PHP. It reports
// nothing by itself, which does not concern what PHP says of a request that it cannot read.
set_error_handler(static function (int $number, string $text): bool {
    throw new ErrorException("the handler was asked: $text", 0, $number);
});
set_exception_handler(static function (Throwable $thrown): void {
    http_response_code(500);
    echo $thrown->getMessage();
});
error_reporting(0);
$handler = static function (): void {
    require $_SERVER['SCRIPT_FILENAME'];
};
while (tokamak_handle_request($handler)) {
}
