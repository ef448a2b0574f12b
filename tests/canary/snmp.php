<?php
// A message of SNMPv3 that is encrypted; the one who reads it looks at its salt and says that it
// does not know us.
if (!extension_loaded('snmp')) {
    http_response_code(404);
    exit;
}
$agent = '127.0.0.1:' . (int) $_GET['port'];
@snmp3_get($agent, 'tests', 'authPriv', 'SHA', 'password', 'AES', 'password', '.1.3.6.1.2.1.1.1.0', 20_000_000, 0);
echo 'sent';
