<?php
// Settings of PHP and its handlers. Worker mode puts these back.

/** What a set_…_handler() function would replace. */
function handler(callable $set, callable $restore): bool
{
    $handler = $set(null);
    $restore();
    return $handler !== null;
}

return [
    'ini_set()' => new Channel(
        pollute: function () { ini_set('precision', '4'); },
        probe: fn () => ini_get('precision'),
    ),
    'error_reporting()' => new Channel(
        pollute: function () { error_reporting(E_ERROR); },
        probe: fn () => error_reporting(),
    ),
    'set_error_handler()' => new Channel(
        pollute: function () { set_error_handler(fn () => true); },
        probe: fn () => handler('set_error_handler', 'restore_error_handler'),
    ),
    'set_exception_handler()' => new Channel(
        pollute: function () { set_exception_handler(fn () => null); },
        probe: fn () => handler('set_exception_handler', 'restore_exception_handler'),
    ),
    'error_get_last()' => new Channel(
        pollute: function () { @trigger_error('polluted', E_USER_NOTICE); },
        probe: fn () => error_get_last()['message'] ?? null,
    ),
    'set_time_limit()' => new Channel(
        pollute: function () { set_time_limit(77); },
        probe: fn () => ini_get('max_execution_time'),
    ),
    'memory_limit' => new Channel(
        pollute: function () { ini_set('memory_limit', '300M'); },
        probe: fn () => ini_get('memory_limit'),
    ),
    'ignore_user_abort()' => new Channel(
        pollute: function () { ignore_user_abort(!ignore_user_abort()); },
        probe: fn () => ignore_user_abort(),
    ),
    'set_include_path()' => new Channel(
        pollute: function () { set_include_path('/polluted'); },
        probe: fn () => get_include_path(),
    ),
    'gc_disable()' => new Channel(
        pollute: function () { gc_disable(); },
        probe: fn () => gc_enabled(),
    ),
    'assert() settings' => new Channel(
        pollute: function () { @ini_set('assert.exception', '0'); },
        probe: fn () => ini_get('assert.exception'),
    ),
    'assert() callback' => new Channel(
        pollute: function () { @assert_options(ASSERT_CALLBACK, fn () => null); },
        probe: fn () => @assert_options(ASSERT_CALLBACK) !== null,
        worker: STAYS,
    ),
    'date_default_timezone_set()' => new Channel(
        pollute: function () { date_default_timezone_set('Asia/Tokyo'); },
        probe: fn () => date_default_timezone_get(),
    ),
    'setlocale()' => new Channel(
        pollute: function () { setlocale(LC_ALL, 'C.UTF-8', 'C.utf8'); },
        probe: fn () => setlocale(LC_ALL, '0'),
    ),
];
