<?php
/* What all requests of a worker share, because it is what a worker is for, or because PHP and its
 * libraries keep it where nobody can tell whose it is. */

class Everybodys
{
    public static int $value = 0;
}

function static_variable(?int $set = null): int
{
    static $value = 0;
    return $value = $set ?? $value;
}

$other = 'a variable of the request, as `Tokamak\Context` has them';
$before = 'do it before the loop begins, for all';

return ['Shared by all requests of a worker' => [
    'global variables' => shared($other, fn($n) => $GLOBALS['v'] = $n, fn() => $GLOBALS['v']),
    'static variables' => shared($other, fn($n) => static_variable($n), fn() => static_variable()),
    'static properties' => shared($other, function ($n) { Everybodys::$value = $n; },
        fn() => Everybodys::$value),
    'constants' => shared($before, fn($n) => defined('SHARED') || define('SHARED', $n),
        fn() => SHARED),
    'functions and classes' => shared($before,
        fn($n) => function_exists('late') || eval("function late() { return $n; }"),
        fn() => late()),
    'autoloaders' => shared($before,
        fn($n) => spl_autoload_register(fn($c) => $c === 'Asked' && $GLOBALS['answers'] = $n),
        function () {
            class_exists('Asked');
            return $GLOBALS['answers'];
        }),
    'files that were included once' => shared('use `include`',
        function ($n) {
            $GLOBALS['once'] = include_once __DIR__ . '/request.php';
        },
        fn($n) => $GLOBALS['once'] === true ? 'before' : $n),
    'stream wrappers that are registered' => shared($before,
        fn($n) => in_array('late', stream_get_wrappers())
            || (stream_wrapper_register('late', SlowFile::class) && $GLOBALS['wrapper'] = $n),
        fn() => $GLOBALS['wrapper']),
    'stream filters that are registered' => shared($before,
        fn($n) => in_array('late', stream_get_filters())
            || (stream_filter_register('late', SlowFilter::class) && $GLOBALS['filter'] = $n),
        fn() => $GLOBALS['filter']),
    'the directory that `readdir()` without an argument means' => shared('pass the handle',
        function ($n) {
            @mkdir(__DIR__ . "/r$n");
            touch(__DIR__ . "/r$n/$n");
            opendir(__DIR__ . "/r$n");
        },
        function () {
            rewinddir();
            while (!is_numeric($name = readdir())) {}
            return (int) $name;
        }),
    'the text of `mb_ereg_search()`' => shared('use `preg_match()`',
        fn($n) => mb_ereg_search_init("a$n", '\d+'),
        function () {
            mb_ereg_search_setpos(0);
            return (int) (mb_ereg_search_regs()[0] ?? 0);
        }),
    '`intl_get_error_code()`' => shared('ask the object: `getErrorCode()`',
        fn($n) => $n % 2 ? transliterator_create('nonsense') : collator_create('en'),
        fn($n) => told($n, (intl_get_error_code() === 0) === ($n % 2 === 0))),
    '`gmp_random_seed()`' => shared('use `Random\Randomizer`', fn($n) => gmp_random_seed($n),
        function ($n) {
            static $first = [];
            $now = gmp_strval(gmp_random_bits(64));
            return told($n, $now === ($first[$n] ??= $now));
        }),
    '`pcntl_signal()`' => shared($before, fn($n) => pcntl_signal(SIGUSR2, fn() => $n),
        fn() => pcntl_signal_get_handler(SIGUSR2)()),
    '`pcntl_sigprocmask()`' => shared($before,
        fn($n) => pcntl_sigprocmask(SIG_SETMASK, $n % 2 ? [SIGUSR1] : []),
        function ($n) {
            pcntl_sigprocmask(SIG_BLOCK, [], $blocked);
            return told($n, $blocked === ($n % 2 ? [SIGUSR1] : []));
        }),
    '`readline_info()`' => shared('leave it alone', fn($n) => readline_info('readline_name', "$n"),
        fn() => (int) readline_info('readline_name')),
    'APCu' => shared('a name with something of the request in it', fn($n) => apcu_store('v', $n),
        fn() => apcu_fetch('v')),
    '`session.save_path`' => shared('set it before the loop, or in `php_value`',
        fn($n) => session_save_path("/tmp/$n"), fn() => (int) substr(session_save_path(), 5)),
]];
