<?php
header('Content-Type: application/json');
echo json_encode([
    'int' => is_int($_SERVER['REQUEST_TIME']),
    'float' => is_float($_SERVER['REQUEST_TIME_FLOAT']),
    'recent' => abs(microtime(true) - $_SERVER['REQUEST_TIME_FLOAT']) < 5,
    'agree' => (int) $_SERVER['REQUEST_TIME_FLOAT'] === $_SERVER['REQUEST_TIME'],
    'time' => $_SERVER['REQUEST_TIME_FLOAT'],
]);
