<?php

/** Lines for the error log, one of which is longer than a page of a pipe; `quiet` writes none. */
function answer(): void
{
    if (!isset($_GET['quiet'])) {
        usleep(1000);
        error_log('complaint');
        error_log('complaint ' . str_repeat('x', 6000));
    }
    echo 'answered';
}
