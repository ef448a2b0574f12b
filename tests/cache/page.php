<?php
// A page that says what it is told to say, and counts how often it runs.
$runs = fopen($_SERVER['STATE'] . '/runs', 'c+');
flock($runs, LOCK_EX);
$run = (int) stream_get_contents($runs) + 1;
rewind($runs);
fwrite($runs, (string) $run);
flock($runs, LOCK_UN);

usleep(1000 * (int) ($_GET['sleep'] ?? 0));
// The file says which runs are not held; none of them if it is empty.
while (($free = @file_get_contents($_SERVER['STATE'] . '/held')) !== false && $run > (int) $free) {
    usleep(2000);
}
if (file_exists($_SERVER['STATE'] . '/down')) {
    http_response_code(503);
    exit("down\n");
}
header_remove('X-Powered-By');
foreach ($_GET['h'] ?? [] as $header) {
    header($header, false);
}
if (($_SERVER['HTTP_IF_NONE_MATCH'] ?? '-') === ($_GET['etag'] ?? '')) {
    http_response_code(304);
    exit;
}
http_response_code((int) ($_GET['status'] ?? 200));
echo "run $run";
foreach ($_GET['say'] ?? [] as $name) {
    echo ' ', $_SERVER[$name] ?? '-';
}
for ($piece = 0; $piece < (int) ($_GET['pieces'] ?? 0); $piece++) {
    echo str_repeat('x', (int) ($_GET['size'] ?? 1));
    flush();
    usleep(1000 * (int) ($_GET['pause'] ?? 0));
}
if (isset($_GET['die'])) {
    posix_kill(getmypid(), 9);
}
