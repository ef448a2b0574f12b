<?php
// Named, so that a backtrace has something to show.
function wait_for_nothing(int $milliseconds): void
{
    usleep(1000 * $milliseconds);
}
