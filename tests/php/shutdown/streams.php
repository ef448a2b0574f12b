<?php
// Writes to a stream of the boot, and leaves it to the end of the request to send that on.
require_once __DIR__ . '/boot.php';
fwrite($streams[$_GET['to']], $_GET['line'] . "\n");
echo 'written';
