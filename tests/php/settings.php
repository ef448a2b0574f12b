<?php
// Tries to change settings; each request must find them as configured.
header('Content-Type: application/json');
$before = ['precision' => ini_get('precision'), 'memory_limit' => ini_get('memory_limit'), 'prepended' => $GLOBALS['prepended'] ?? null];
$changed = ['precision' => ini_set('precision', '3'), 'memory_limit' => ini_set('memory_limit', '99M')];
echo json_encode([
    'before' => $before,
    'changed' => $changed,
    'after' => ['precision' => ini_get('precision'), 'memory_limit' => ini_get('memory_limit')],
    'all' => ini_get_all('core')['memory_limit'] ?? null,
    'disabled' => function_exists('phpversion'),
]);
