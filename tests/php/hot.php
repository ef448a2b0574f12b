<?php
// Four fifths of its work in one function, a fifth in another; says how long it was in each, in
// nanoseconds. ?wait: then it waits.
require_once __DIR__ . '/lib/hot_functions.php';
$most = $little = 0;
for ($i = 0; $i < 10; $i++) {
    $begun = hrtime(true);
    spend_most(400_000);
    $between = hrtime(true);
    spend_little(100_000);
    $most += $between - $begun;
    $little += hrtime(true) - $between;
}
if (isset($_GET['wait'])) {
    wait_a_while();
}
echo "$most $little";
