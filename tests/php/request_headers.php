<?php
header('Content-Type: application/json');
$all = getallheaders();
echo json_encode([
    'headers' => $all,
    'same' => $all === apache_request_headers(),
    'server' => array_filter($_SERVER, static fn (string $name): bool => str_starts_with($name, 'HTTP_'), ARRAY_FILTER_USE_KEY),
], JSON_INVALID_UTF8_SUBSTITUTE);
