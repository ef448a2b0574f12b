<?php
// By which ways a script gets at what another site, or this one, has made.
$of = $_GET;
$key = crc32($of['user']) & 0x7fffffff;
$opens = fn (string $file) => @fopen($file, 'r') !== false;
$ways = [
    'file' => fn () => $opens($of['file']),
    'folder' => fn () => @scandir(dirname($of['file'])) !== false,
    'session' => fn () => $opens($of['session']),
    'session of its id' => function () use ($of) {
        session_id(substr(basename($of['session']), 5));
        return @session_start() && ($_SESSION['secret'] ?? '') === $of['user'];
    },
    'upload' => fn () => $opens($of['upload']),
    'shared memory' => fn () => @shmop_open($key, 'a', 0, 0) !== false,
    'semaphores' => fn () => @sem_get($key, 1, 0600, false) !== false,
    'apcu' => fn () => apcu_fetch('secret') === $of['user'],
    'socket' => fn () => @stream_socket_client('unix://' . $of['socket']) !== false
        || posix_access(dirname($of['socket']), POSIX_X_OK),
    'signal' => fn () => posix_kill((int) $of['pid'], 0),
    'signal to the zygote' => fn () => posix_kill((int) $of['parent'], 0),
    'signal to the server' => fn () => posix_kill((int) $of['server'], 0),
    'environment' => fn () => $opens("/proc/{$of['pid']}/environ"),
    'key' => fn () => $opens($of['key']),
    'control' => fn () => @stream_socket_client('unix://' . $of['control']) !== false,
];
$found = array_keys(array_filter($ways, fn ($way) => $way()));
sort($found);
$pids = "{$of['pid']} {$of['parent']} {$of['server']}";
exec('python3 ' . escapeshellarg(dirname(__DIR__) . '/privacy/look.py') . " $pids", $lines);
$looked = json_decode($lines[0], true);
echo json_encode([
    'reached' => $found,
    'looked into' => array_keys(array_filter($looked, fn ($ways) => $ways !== [])),
]);
