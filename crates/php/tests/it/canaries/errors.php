<?php
/* What went wrong, and who is told. */

/** The comparison with 0 of some number of an error, which odd requests have not made. */
function no_error_if_odd(int $n, bool $is_none): mixed
{
    return told($n, $is_none === (bool) ($n % 2), $is_none ? 'no error' : 'an error');
}

return ['Errors' => [
    '`set_error_handler()`' => own(fn($n) => set_error_handler(fn() => $GLOBALS['seen'] = $n),
        function () {
            trigger_error('x');
            return $GLOBALS['seen'];
        }),
    '`restore_error_handler()`' => own(
        function ($n) {
            set_error_handler(fn() => $GLOBALS['seen'] = $n);
            set_error_handler(fn() => $GLOBALS['seen'] = 'the second');
        },
        function () {
            restore_error_handler();
            trigger_error('x');
            $seen = $GLOBALS['seen'];
            set_error_handler(fn() => $GLOBALS['seen'] = 'the second');
            return $seen;
        }),
    '`set_exception_handler()`' => own(fn($n) => set_exception_handler(fn() => $n), function () {
        $handler = set_exception_handler(null);
        restore_exception_handler();
        return $handler();
    }),
    '`error_get_last()`' => own(fn($n) => @file_get_contents("/none/$n"),
        fn() => (int) preg_replace('~.*/none/(\d+).*~', '$1', error_get_last()['message'])),
    '`error_reporting()`' => own(fn($n) => error_reporting($n), fn() => error_reporting()),
    'silence by `@`' => own(fn() => null, function ($n) {
        $before = error_reporting();
        $within = @(function () {
            wait();
            return error_reporting();
        })();
        return told($n, $within === ($before & 4437) && error_reporting() === $before,
            "$before, $within, " . error_reporting());
    }),
    'an exception that waits for `finally`' => own(fn() => null, function ($n) {
        try {
            try {
                throw new Exception("$n");
            } finally {
                wait();
            }
        } catch (Exception $e) {
            return (int) $e->getMessage();
        }
    }),
    'warnings that a constructor throws' => own(fn() => null, function ($n) {
        // SplFileObject makes exceptions of warnings while it opens, and no other request's.
        try {
            new SplFileObject("slow://none/$n");
        } catch (RuntimeException $e) {
            return told($n, $e->getMessage() === "slow://none/$n", $e->getMessage());
        }
    }),
    '`json_last_error()`' => own(fn($n) => json_decode($n % 2 ? '1' : '{'),
        fn($n) => no_error_if_odd($n, json_last_error() === 0)),
    '`preg_last_error()`' => own(fn($n) => @preg_match('/./u', $n % 2 ? 'a' : "\xff"),
        fn($n) => no_error_if_odd($n, preg_last_error() === 0)),
    '`date_get_last_errors()`' => own(fn($n) => date_create($n % 2 ? '2020-01-01' : 'nonsense'),
        fn($n) => no_error_if_odd($n, (date_get_last_errors()['error_count'] ?? 0) === 0)),
    '`libxml_use_internal_errors()`' => own(
        fn($n) => libxml_use_internal_errors((bool) ($n % 2)),
        fn($n) => told($n, libxml_use_internal_errors((bool) ($n % 2)) === (bool) ($n % 2))),
    '`libxml_get_errors()`' => own(
        function ($n) {
            libxml_use_internal_errors(true);
            simplexml_load_string("<a$n");
        },
        fn() => (int) preg_replace('/\D+(\d+).*/s', '$1', libxml_get_errors()[0]->message ?? '0')),
    '`libxml_get_last_error()`' => own(
        function ($n) {
            libxml_use_internal_errors(true);
            simplexml_load_string("<a$n>");
        },
        fn() => (int) preg_replace('/\D+(\d+).*/s', '$1', libxml_get_last_error()->message ?? '0')),
    '`libxml_set_external_entity_loader()`' => own(
        fn($n) => $n % 2 && libxml_set_external_entity_loader(fn() => $n),
        fn($n) => $n % 2 ? libxml_get_external_entity_loader()()
            : told($n, gettype(libxml_get_external_entity_loader()) === 'NULL')),
    // Debian 13 has no such extension.
    '`imap_last_error()`' => own(
        fn($n) => function_exists('imap_open') && @imap_open("{nonsense$n", 'user', 'password'),
        fn($n) => function_exists('imap_open') ? (int) preg_replace('/\D+(\d+).*/s', '$1', imap_last_error()) : $n),
    '`posix_get_last_error()`' => own(
        fn($n) => $n % 2 ? posix_getpgid(999999999) : posix_access('/none/x'),
        fn($n) => told($n, posix_get_last_error() === nth([2, 3], $n))),
    '`socket_last_error()`' => own(
        fn($n) => $n % 2 || @socket_bind(socket_create(AF_INET, SOCK_STREAM, 0), '192.0.2.1'),
        fn($n) => no_error_if_odd($n, socket_last_error() === 0)),
    '`openssl_error_string()`' => own(fn() => null, function ($n) {
        while (openssl_error_string()) {}
        if ($n % 2 === 0) {
            openssl_pkey_get_private('nonsense');
        }
        wait();
        return no_error_if_odd($n, openssl_error_string() === false);
    }),
    '`mysqli_connect_errno()`' => own(
        function ($n) {
            mysqli_report(MYSQLI_REPORT_OFF);
            $n % 2 || @mysqli_connect('127.0.0.1', 'nobody', '', '', 1);
        },
        fn($n) => no_error_if_odd($n, mysqli_connect_errno() === 0)),
]];
