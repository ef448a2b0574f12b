<?php
// PHP's own sessions.

return [
    'session, left open' => new Channel(
        pollute: function () {
            session_start();
            $_SESSION['polluted'] = true;
        },
        probe: fn () => [session_status(), $_SESSION ?? null],
    ),
    'session_id()' => new Channel(
        pollute: function () { session_id('polluted'); },
        probe: fn () => session_id(),
    ),
    'session_name()' => new Channel(
        pollute: function () { session_name('POLLUTED'); },
        probe: fn () => session_name(),
    ),
    'session_set_save_handler()' => new Channel(
        pollute: function () { session_set_save_handler(new SessionHandler(), false); },
        probe: fn () => [session_module_name(), ini_get('session.save_handler')],
    ),
    'session_set_cookie_params()' => new Channel(
        pollute: function () { session_set_cookie_params(['path' => '/polluted']); },
        probe: fn () => session_get_cookie_params()['path'],
    ),
    'session_cache_limiter()' => new Channel(
        pollute: function () { session_cache_limiter('public'); },
        probe: fn () => session_cache_limiter(),
    ),
    'session_save_path()' => new Channel(
        pollute: function () { session_save_path(sys_get_temp_dir()); },
        probe: fn () => session_save_path() === sys_get_temp_dir(),
        worker: STAYS,
    ),
];
