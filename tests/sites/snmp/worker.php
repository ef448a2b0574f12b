<?php

// Asks an agent for the value of a number.
while (tokamak_handle_request(static function (): void {
    if (!extension_loaded('snmp')) {
        http_response_code(404);
        return;
    }
    $snmp = new SNMP(SNMP::VERSION_2c, '127.0.0.1:' . $_GET['port'], 'public', 30_000_000, 0);
    var_export([@$snmp->get('1.3.6.1.4.1.8072.9999.1.' . $_GET['n']), $snmp->getErrno()]);
})) {
}
