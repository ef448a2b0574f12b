<?php

// Of each request: neither this nor what it leaves is in the image.
if (strtok($_SERVER['REQUEST_URI'], '?') === '/missing') {
    http_response_code(404);
}
$GLOBALS['visitors'][] = $_GET['tokamak_seal'] ?? 'none';
echo time() > 0, random_int(1, 6) > 0, count($visitors);
