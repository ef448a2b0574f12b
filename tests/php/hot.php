<?php
// Four fifths of its processor time in one function, a fifth in another; ?wait: then it waits.
require_once __DIR__ . '/lib/hot_functions.php';
for ($i = 0; $i < 10; $i++) {
    spend_most(400_000);
    spend_little(100_000);
}
if (isset($_GET['wait'])) {
    wait_a_while();
}
echo 'done';
