<?php
// Says that it runs, and ends when the test has taken that note away.
$note = getenv('STATE') . '/held-' . $_GET['name'];
touch($note);
while (file_exists($note)) {
    usleep(2000);
    clearstatcache();
}
echo 'held';
