<?php
// What a request declares, includes and hooks into the compiler.

require_once __DIR__ . '/../ticking.php';

return [
    'define()' => new Channel(
        pollute: function () { define('POLLUTED', 1); },
        probe: fn () => defined('POLLUTED'),
        worker: STAYS,
    ),
    'function' => new Channel(
        pollute: function () { eval('function polluted() {}'); },
        probe: fn () => function_exists('polluted'),
        worker: STAYS,
    ),
    'class with a constant' => new Channel(
        pollute: function () { eval('class Polluted { const CONSTANT = 1; }'); },
        probe: fn () => class_exists('Polluted', false) && defined('Polluted::CONSTANT'),
        worker: STAYS,
    ),
    'enumeration' => new Channel(
        pollute: function () { eval('enum PollutedCases { case One; }'); },
        probe: fn () => enum_exists('PollutedCases', false),
        worker: STAYS,
    ),
    'class_alias()' => new Channel(
        pollute: function () { class_alias('Counter', 'PollutedAlias'); },
        probe: fn () => class_exists('PollutedAlias', false),
        worker: STAYS,
    ),
    'include_once' => new Channel(
        pollute: function () { include_once __DIR__ . '/../fixture.php'; },
        probe: fn () => count(get_included_files()),
        worker: STAYS,
    ),
    'spl_autoload_register()' => new Channel(
        pollute: function () { spl_autoload_register(fn () => null); },
        probe: fn () => count(spl_autoload_functions()),
        worker: STAYS,
    ),
    'spl_autoload_extensions()' => new Channel(
        pollute: function () { spl_autoload_extensions('.polluted'); },
        probe: fn () => spl_autoload_extensions(),
        worker: STAYS,
    ),
    'register_tick_function()' => new Channel(
        pollute: function () { register_tick_function(function () { Kept::$things['ticks'] = true; }); },
        probe: function () {
            Kept::$things['ticks'] = false;
            tick();
            return Kept::$things['ticks'];
        },
        worker: STAYS,
    ),
];
