<?php
// Wants more memory than it may have at most, then all that it may have, of which it uses a part.
$before = ini_get('memory_limit');
@ini_set('memory_limit', '256M');
$after = ini_get('memory_limit');
$warning = error_get_last()['message'] ?? null;
ini_set('memory_limit', $after);
$text = str_repeat('x', 40 << 20);
header('Content-Type: application/json');
echo json_encode(['before' => $before, 'after' => $after, 'most' => ini_get('max_memory_limit'), 'warning' => $warning]);
