<?php
// A front controller, and what it was told.
header('Content-Type: text/plain');
header('X-Told: by the application');
http_response_code((int) ($_GET['status'] ?? 200));
echo 'index ', $_SERVER['REQUEST_URI'], ' [', $_SERVER['PATH_INFO'] ?? '', '] ', $_SERVER['QUERY_STRING'];
