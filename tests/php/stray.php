<?php

// Writes beside PHP's own log: by itself, and by programs that it starts. One of them lives on.

$forged = '2026-01-01T00:00:00.000Z ERROR [elsewhere] forged by ';

file_put_contents('php://stderr', $forged . "the script\n");
file_put_contents('php://stdout', $forged . "the script's output\n");
exec('printf "\033[2J%s\n" ' . escapeshellarg($forged . 'a child') . ' >&2');
exec('(sleep 0.3; echo ' . escapeshellarg($forged . 'one that was left') . ' >&2) > /dev/null &');
echo 'written';
