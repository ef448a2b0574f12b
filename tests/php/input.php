<?php
// Reads the body as a stream, twice: php://input can be opened again.
header('Content-Type: application/json');
$length = 0;
$sum = hash_init('crc32b');
$stream = fopen('php://input', 'r');
while (!feof($stream)) {
    $piece = fread($stream, 65536);
    $length += strlen($piece);
    hash_update($sum, $piece);
}
$again = fopen('php://input', 'r');
echo json_encode([
    'length' => $length,
    'crc32' => hash_final($sum),
    'again' => fread($again, 8),
    'announced' => $_SERVER['CONTENT_LENGTH'] ?? null,
]);
