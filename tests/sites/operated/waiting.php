<?php
// Named, so that a backtrace has something to show.
function wait_for_nothing(int $milliseconds): void
{
    usleep(1000 * $milliseconds);
}

// Says that it runs, and ends when the test has taken that note away.
function wait_for_the_test(string $name): void
{
    $note = getenv('STATE') . '/held-' . $name;
    touch($note);
    while (file_exists($note)) {
        usleep(2000);
        clearstatcache();
    }
}
