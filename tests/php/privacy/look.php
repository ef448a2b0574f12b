<?php
// What a script can do to its own process's memory, and a program that it starts to other processes.
$own = [];
foreach (['mem' => 'r', 'mem ' => 'r+', 'environ' => 'r', 'pagemap' => 'r'] as $file => $mode) {
    if (@fopen('/proc/self/' . trim($file), $mode)) {
        $own[] = "$file $mode";
    }
}
$process = proc_open(
    ['python3', __DIR__ . '/look.py', ...explode(',', $_GET['pids'])],
    [1 => ['pipe', 'w'], 2 => ['file', '/dev/null', 'w']],
    $pipes,
);
$others = json_decode(stream_get_contents($pipes[1]), true);
proc_close($process);
echo json_encode(['pid' => getmypid(), 'own' => $own, 'others' => $others]);
