<?php
// Has a file sent.
header('X-Told: yes');
header('Content-Type: application/x-told');
if (isset($_GET['accel'])) {
    header('X-Accel-Redirect: ' . $_GET['accel']);
} else {
    header('X-Sendfile: ' . ($_GET['file'][0] === '/' ? $_GET['file'] : __DIR__ . '/' . $_GET['file']));
}
echo str_repeat('not this', 10_000);
