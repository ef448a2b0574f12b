<?php
/* One canary for each request: it sets something to a value of its own request and reads it back,
 * again and again, while others do the same. Between any two readings it waits. */

/** A row of state that each request has of its own. `$last` may say something in the response. */
function own(callable $set, callable $get, ?callable $last = null): array
{
    return ['own', $set, $get, '', $last];
}

/** A row that is shared on purpose, and what to do instead. */
function shared(string $instead, callable $set, callable $get): array
{
    return ['shared', $set, $get, $instead, null];
}

/** A request's own n-th of some values: for what cannot be set to a number. */
function nth(array $values, int $n): mixed
{
    return $values[$n % count($values)];
}

/** What a reader says: its number if all is well, otherwise what it saw. */
function told(int $n, bool $is_well, mixed $seen = 'not its own'): mixed
{
    return $is_well ? $n : $seen;
}

/** Waits in one of several ways, ready or not. Counts the times that another request came first. */
function wait(): void
{
    static $running = 0, $turn = 0;
    global $switches, $waits;
    $n = (int) $_SERVER['HTTP_N'];
    if ($turn++ % 2) {
        usleep(1);
    } else {
        // Never blocks, yet it is a wait.
        $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        fwrite($pair[0], 'x');
        fread($pair[1], 1);
    }
    $waits++;
    if ($running !== $n) {
        $switches++;
        $running = $n;
    }
}

function serve(array $topics): void
{
    if (isset($_GET['list'])) {
        foreach ($topics as $topic => $rows) {
            foreach ($rows as $name => [$kind, , , $instead]) {
                echo implode("\t", [$topic, $name, $kind, $instead]), "\n";
            }
        }
        return;
    }
    if (isset($_GET['watcher'])) {
        echo implode("\n", $_GET['watcher']());
        return;
    }
    if (isset($_GET['count'])) {
        echo $GLOBALS['switches'];
        return;
    }
    $n = (int) $_SERVER['HTTP_N'];
    [, $set, $get, , $last] = $topics[$_SERVER['HTTP_TOPIC']][$_SERVER['HTTP_ROW']];
    $waits = (int) $_SERVER['HTTP_WAITS'];
    $set($n);
    // Until so many have come this far.
    $come = &$GLOBALS['come'][$_SERVER['HTTP_ROW']];
    for ($come++; $come < (int) $_SERVER['HTTP_TOGETHER'];) {
        usleep(1000);
    }
    unset($come);
    $seen = [];
    for ($i = 0; $i < $waits; $i++) {
        wait();
        $now = $get($n);
        if ($now !== $n) {
            $seen[] = is_int($now) ? 'of another' : var_export($now, true);
        }
    }
    if (!$last) {
        while (ob_get_level()) {
            ob_end_clean();
        }
        http_response_code(200);
    }
    echo $seen ? implode(', ', array_unique($seen)) : 'own', "\n";
    if ($last) {
        $last($n);
    }
}

$switches = $waits = 0;
$topics = [];
foreach (['request', 'errors', 'settings', 'calls', 'shared'] as $file) {
    $topics += require __DIR__ . "/$file.php";
}
if (function_exists('watch')) {
    watch(); // globals/watcher.c
}
tokamak_handle_request(static fn() => serve($topics));
