<?php

// Requests that use pgsql as old applications do: nobody names the connection.

$text = 'host=127.0.0.1 dbname=reactor user=reactor port='.getenv('POSTGRESQL')." password='".getenv('PASSWORD')."'";
$ask = fn (string $sql) => pg_fetch_result(pg_query($sql), 0);

/** Says of itself who it is, and is asked again and again while others do the same. */
$own = function (string $name) use ($text, $ask) {
    pg_connect($text);
    $ask("SELECT set_config('application_name', '$name', false)");
    $process = pg_get_pid(pg_connect($text)); // which is the same
    for ($i = 0; $i < 10; $i++) {
        $seen = $ask("SELECT current_setting('application_name') FROM pg_sleep(0.002)");
        @pg_query("SELECT '$name'::int");
        usleep(1000);
        if ($seen !== $name || !str_contains(pg_last_error(), $name) || (int) $ask('SELECT pg_backend_pid()') !== $process) {
            return "is $seen, ".pg_last_error();
        }
    }

    return 'own';
};

error_reporting(E_ALL & ~E_DEPRECATED & ~E_WARNING);
$handler = function () use ($own, $ask) {
    try {
        echo ($_GET['do'] === 'own') ? $own($_GET['name']) : $ask('SELECT 1');
    } catch (Error $error) {
        echo 'refused: ', $error->getMessage();
    }
};
while (tokamak_handle_request($handler)) {
}
