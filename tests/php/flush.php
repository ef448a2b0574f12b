<?php
// The first part is on its way long before the script ends.
header('Content-Type: text/plain');
header('X-Accel-Buffering: no'); // for nginx
echo 'first';
if ($_GET['buffer'] ?? false) {
    ob_flush();
}
flush();
usleep(500_000);
echo ' middle';
flush();
usleep(300_000);
echo ' last';
