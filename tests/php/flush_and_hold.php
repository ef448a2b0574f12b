<?php
// Flushes its first words, says so, and says the last ones when the test has taken that note away.
header('Content-Type: text/html');
echo 'first words';
flush();
$note = getenv('STATE') . '/held-' . $_GET['name'];
file_put_contents($note, '');
while (file_exists($note)) {
    usleep(2000);
    clearstatcache();
}
echo ', last words';
