<?php
// As server.php, for requests that mean a directory.
header('Content-Type: application/json');
ksort($_SERVER);
echo json_encode($_SERVER, JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_SLASHES);
