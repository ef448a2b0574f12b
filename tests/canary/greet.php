<?php
require_once __DIR__ . '/generators.php';
http_response_code(extension_loaded('ldap') ? 200 : 404);
greet_by_tls((int) getenv('TLS_PORT'));
echo json_encode(['pid' => getmypid()]);
