<?php

require_once __DIR__.'/functions.php';

$on = $_GET['on'];
$persistent = isset($_GET['persistent']);
echo match ($on) {
    'redis' => redis(PLACES[$on], $persistent)->get('thing:42'),
    default => pdo(PLACES[$on], $persistent)
        ->query('SELECT name FROM things WHERE id = 42')
        ->fetchColumn(),
};
