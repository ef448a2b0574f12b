<?php
// What PHP code keeps in variables of any kind. In worker mode all of it stays: that is what the
// mode is for.

define('OBJECT_OF_BOOT', new ArrayObject());
Kept::$things['list'] = ['first', 'second'];

function counted(): int
{
    static $count = 0;
    return ++$count;
}

final class Counter
{
    public static mixed $property = null;

    public static function counted(): int
    {
        static $count = 0;
        return ++$count;
    }
}

$counted = function (bool $count): int {
    static $counted = 0;
    return $count ? ++$counted : $counted;
};

return [
    'global variable' => new Channel(
        pollute: function () { $GLOBALS['polluted'] = true; },
        probe: fn () => isset($GLOBALS['polluted']),
        worker: STAYS,
    ),
    'global variable, unset' => new Channel(
        pollute: function () { unset($GLOBALS['of_boot']); },
        probe: fn () => $GLOBALS['of_boot'] ?? 'gone',
        worker: STAYS,
    ),
    'static property' => new Channel(
        pollute: function () { Counter::$property = 'polluted'; },
        probe: fn () => Counter::$property,
        worker: STAYS,
    ),
    'static variable of a function' => new Channel(
        pollute: function () { counted(); },
        probe: fn () => (new ReflectionFunction('counted'))->getStaticVariables(),
        worker: STAYS,
    ),
    'static variable of a method' => new Channel(
        pollute: function () { Counter::counted(); },
        probe: fn () => (new ReflectionMethod('Counter', 'counted'))->getStaticVariables(),
        worker: STAYS,
    ),
    'static variable of a closure' => new Channel(
        pollute: function () use ($counted) { $counted(true); },
        probe: fn () => $counted(false),
        worker: STAYS,
    ),
    'object in a constant' => new Channel(
        pollute: function () { OBJECT_OF_BOOT->offsetSet('polluted', true); },
        probe: fn () => OBJECT_OF_BOOT->getArrayCopy(),
        worker: STAYS,
    ),
    'position in an array' => new Channel(
        pollute: function () { next(Kept::$things['list']); },
        probe: fn () => current(Kept::$things['list']),
        worker: STAYS,
    ),
    'WeakMap' => new Channel(
        pollute: function () {
            Kept::$things['map'] = new WeakMap();
            Kept::$things['map'][OBJECT_OF_BOOT] = 'polluted';
        },
        probe: fn () => Kept::$things['map'][OBJECT_OF_BOOT] ?? null,
        worker: STAYS,
    ),
    'generator, half run' => new Channel(
        pollute: function () {
            Kept::$things['generator'] = (function () { yield 'first'; yield 'second'; })();
            Kept::$things['generator']->next();
        },
        probe: fn () => isset(Kept::$things['generator']) ? Kept::$things['generator']->current() : null,
        worker: STAYS,
    ),
    'fiber, half run' => new Channel(
        pollute: function () {
            Kept::$things['fiber'] = new Fiber(function () { Fiber::suspend(); });
            Kept::$things['fiber']->start();
        },
        probe: fn () => isset(Kept::$things['fiber']) && Kept::$things['fiber']->isSuspended(),
        worker: STAYS,
    ),
    'number of the next object' => new Channel(
        pollute: function () { Kept::$things['objects'] = [new stdClass(), new stdClass()]; },
        probe: fn () => spl_object_id(new stdClass()),
        worker: STAYS,
    ),
    'garbage in cycles' => new Channel(
        pollute: function () {
            for ($i = 0; $i < 2000; $i++) {
                $object = new stdClass();
                $object->itself = $object;
            }
        },
        probe: fn () => gc_status()['roots'] > 1000,
        worker: STAYS,
    ),
    'runs of the garbage collector' => new Channel(
        pollute: function () {
            $object = new stdClass();
            $object->itself = $object;
            unset($object);
            gc_collect_cycles();
        },
        probe: fn () => gc_status()['runs'],
        worker: STAYS,
    ),
    'memory growth' => new Channel(
        pollute: function () { Kept::$things['memory'] = str_repeat('polluted', 2 << 20); },
        probe: fn () => memory_get_usage() > 12 << 20,
        worker: STAYS,
    ),
    'peak of memory' => new Channel(
        pollute: function () { str_repeat('polluted', 8 << 20); },
        probe: fn () => memory_get_peak_usage() > 48 << 20,
        worker: STAYS,
    ),
];
