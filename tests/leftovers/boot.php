<?php
// Leftovers: one request calls a function of PHP's with whatever arguments fit, the next looks at
// all that it can see of its process. See tests/it/leftovers.rs for the order of the requests.
require_once __DIR__ . '/calls.php';
require_once __DIR__ . '/sights.php';

/** A file of the test's own folder. */
function place(string $name): string
{
    return getenv('STATE') . "/$name";
}

/** Answers `?do=list`, `?do=call&name=NAME`, which goes on while a file lies there with `&hold=FILE`, and `?do=look`. */
function serve(): void
{
    $answer = match ($_GET['do']) {
        'list' => names(),
        'call' => called($_GET['name']),
        'look' => sights(),
    };
    $answer = json_encode($answer, JSON_INVALID_UTF8_SUBSTITUTE | JSON_PARTIAL_OUTPUT_ON_ERROR);
    if (isset($_GET['hold'])) {
        $note = place("held-$_GET[hold]");
        file_put_contents($note, '');
        while (file_exists($note)) {
            usleep(2000);
            clearstatcache();
        }
    }
    unset($GLOBALS['results']); // a global of its own would stay in worker mode
    while (ob_get_level() > 0 && ob_end_clean()) {
    }
    header('X-Process: ' . getmypid());
    echo $answer;
}

names(); // reflection and its caches, before any request
