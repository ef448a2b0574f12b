<?php
// Says that it runs, and ends when the test has taken that note away.
$note = getenv('STATE') . '/held-' . $_GET['name'];
file_put_contents($note, '');
while (file_exists($note)) {
    usleep(2000);
    clearstatcache();
}
echo 'held';
