<?php
// Settings of PHP and its handlers. Worker mode puts these back.

/** What a set_…_handler() function would replace. */
function handler(callable $set, callable $restore): bool
{
    $handler = $set(null);
    $restore();
    return $handler !== null;
}

/**
 * What a script may change, but for what has a channel of its own, and what ends the request that
 * changes it or its output.
 */
function settings_to_change(): array
{
    static $left_alone = '~^(open_basedir|memory_limit|max_execution_time|error_log|session\.save_path
        |session\.save_handler|.*output.*|zend\.assertions|.*handler.*|arg_separator.*)$~x';
    $settings = array_filter(ini_get_all(), fn ($setting) => ($setting['access'] & INI_USER) !== 0);
    $values = array_map(fn ($setting) => $setting['local_value'], $settings);
    return array_filter($values, fn ($name) => !preg_match($left_alone, $name), ARRAY_FILTER_USE_KEY);
}

return [
    'ini_set()' => new Channel(
        pollute: function () { ini_set('precision', '4'); },
        probe: fn () => ini_get('precision'),
    ),
    'ini_set() of each setting' => new Channel(
        pollute: function () {
            foreach (settings_to_change() as $name => $value) {
                @ini_set($name, is_numeric($value) ? (string) ($value + 1) : "$value-polluted");
            }
        },
        probe: fn () => settings_to_change(),
    ),
    'open_basedir' => new Channel(
        pollute: function () { ini_set('open_basedir', '/:/polluted'); },
        probe: fn () => ini_get('open_basedir'),
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
