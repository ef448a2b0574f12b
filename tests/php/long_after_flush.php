<?php
// Goes on for long after its head has been sent, and notes that it came to its end.
for ($turn = 0; $turn < 20; $turn++) {
    echo str_repeat('x', 50_000);
    flush();
    usleep(5000);
}
file_put_contents(getenv('STATE') . '/end-' . $_GET['name'], (string) connection_status());
