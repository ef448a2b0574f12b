<?php
// The whole $_SERVER, and what else is made from the request.
header('Content-Type: application/json');
ksort($_SERVER);
echo json_encode($_SERVER, JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_SLASHES);
