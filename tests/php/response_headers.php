<?php
http_response_code((int) ($_GET['code'] ?? 200));
header('X-One: 1');
header('Content-Type: application/json');
$headers = apache_response_headers();
unset($headers['X-Powered-By']);
echo json_encode($headers);
