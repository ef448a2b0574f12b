<?php
// The response is complete at once; the script goes on.
header('X-Before: 1');
echo 'before';
$first = fastcgi_finish_request();
echo 'after';
$second = fastcgi_finish_request();
$held = getenv('STATE') . '/hold-finish-' . $_GET['name'];
while (file_exists($held)) {
    usleep(2000);
    clearstatcache();
}
file_put_contents(getenv('STATE') . '/finish-' . $_GET['name'], json_encode([
    'first' => $first,
    'second' => $second,
    'input' => file_get_contents('php://input'),
    'aborted' => connection_aborted(),
]));
