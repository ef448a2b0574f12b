<?php
require_once __DIR__ . '/generators.php';
greet_by_tls((int) getenv('TLS_PORT'));
echo json_encode(['pid' => getmypid()]);
