<?php
// Debuggers, profilers, and what changes PHP itself.
return [
    'excimer' => [
        'use' => static function () {
            $profiler = new ExcimerProfiler();
            $profiler->setPeriod(0.001);
            $profiler->setEventType(EXCIMER_REAL);
            $profiler->start();
            usleep(20000);
            $profiler->stop();
            return $profiler->getLog()->count() > 0;
        },
        'is' => true,
    ],
    'xdebug' => [
        'use' => static fn () => [xdebug_is_debugger_active(), count(xdebug_get_function_stack()) > 0],
        'is' => [false, true],
    ],
    'pcov' => [
        'use' => static function () {
            pcov\start();
            pcov\stop();
            return is_array(pcov\collect());
        },
        'is' => true,
    ],
    'uopz' => [
        'use' => static function () {
            uopz_set_return('getmyuid', -1);
            $seen = getmyuid();
            uopz_unset_return('getmyuid');
            return [$seen, getmyuid() >= 0];
        },
        'is' => [-1, true],
    ],
    'tideways_xhprof' => [
        'only' => '8.2',
        'use' => static function () {
            tideways_xhprof_enable();
            strlen('x');
            return isset(tideways_xhprof_disable()['main()']);
        },
        'is' => true,
    ],
    'pinba' => [
        'only' => '8.2',
        'use' => static function () {
            $timer = pinba_timer_start(['group' => 'works']);
            pinba_timer_stop($timer);
            return pinba_timer_get_info($timer)['tags'];
        },
        'is' => ['group' => 'works'],
    ],
    'wmerrors' => ['use' => static fn () => ini_get('wmerrors.enabled') !== false, 'is' => true],
    'raphf' => ['use' => static fn () => raphf\clean_persistent_handles(), 'is' => null],
];
