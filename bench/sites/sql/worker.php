<?php

require __DIR__.'/ask.php';

// A request takes a connection for as long as it asks: in worker mode there is one, in async mode
// there are as many as requests ask at once.
$idle = ['mysql' => [], 'pgsql' => []];
$handler = static function () use (&$idle): void {
    $on = $_GET['on'];
    $database = array_pop($idle[$on]) ?? connection($on, false);
    answer($database);
    $idle[$on][] = $database;
};

while (tokamak_handle_request($handler)) {
}
