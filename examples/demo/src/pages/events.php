<?php

header('Content-Type: text/event-stream');
header('Cache-Control: no-store');

while (ob_get_level() > 0) {
    ob_end_flush();
}

$from = microtime(true);
for ($number = 1; $number <= 10; $number++) {
    $left = (int) round((microtime(true) - $from) * 1000);
    echo 'data: ', json_encode(['number' => $number, 'left' => $left]), "\n\n";
    flush();
    if (connection_aborted()) {
        return;
    }
    usleep(300_000);
}
echo "event: end\ndata: {}\n\n";
