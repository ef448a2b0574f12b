<?php
// Publishes what `with` says, an array of arguments as JSON. `size`: so many bytes of data;
// `waits`: a file for which the script waits first; `late`: the response is finished before.
if (isset($_GET['late'])) {
    echo 'late';
    tokamak_finish_request();
}
if (isset($_GET['waits'])) {
    touch("$_GET[waits].begun");
    while (!file_exists($_GET['waits'])) {
        usleep(10000);
        clearstatcache();
    }
}
$publish = $_GET['function'] ?? 'mercure_publish';
$arguments = json_decode($_GET['with'], true);
if (isset($_GET['size'])) {
    $arguments[] = str_repeat('x', (int) $_GET['size']);
}
try {
    $answer = $publish(...$arguments);
} catch (Throwable $problem) {
    $answer = $problem::class . ': ' . $problem->getMessage();
}
echo $answer;
