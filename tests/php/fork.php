<?php
// A child that only a signal ends, and what has ended it.
$pid = pcntl_fork();
if ($pid === 0) {
    sleep(20);
    posix_kill(getmypid(), SIGKILL);
}
posix_kill($pid, SIGTERM);
pcntl_waitpid($pid, $status);
echo pcntl_wifsignaled($status) ? pcntl_wtermsig($status) : 'none';
