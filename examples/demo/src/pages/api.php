<?php

/** @var array{run: Demo\Run} $with */

header('Content-Type: application/json');
header('Cache-Control: no-store');

echo json_encode([
    'mode' => $with['run']->value,
    'php' => PHP_VERSION,
    'pid' => getmypid(),
    'served' => Demo\served(),
    'memory' => memory_get_usage(),
    'microseconds' => (int) round((microtime(true) - $_SERVER['REQUEST_TIME_FLOAT']) * 1e6),
], JSON_THROW_ON_ERROR);
