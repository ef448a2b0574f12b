<?php
// The application of scripts/test-nodes. Each answer says by whom and of which release it is, and
// what it knows of its visitor.
$release = trim((string) file_get_contents(__DIR__ . '/RELEASE'));

$answer = static function (array $what) use ($release): void {
    header('Content-Type: application/json');
    $by = ['node' => gethostname(), 'release' => $release, 'host' => $_SERVER['HTTP_HOST']];
    echo json_encode($by + $what), "\n";
};

// Whether there is a session. phpredis returns false, or throws if Redis goes away in between.
$begins = static function (): bool {
    try {
        return @session_start();
    } catch (RedisException) {
        return false;
    }
};

// Whether it was stored. Of a write that Redis or the lock refuses, PHP returns true, and warns.
$ends = static function (): bool {
    error_clear_last();
    try {
        @session_write_close();
    } catch (RedisException) {
        return false;
    }
    return error_get_last() === null;
};

$handler = static function () use ($answer, $begins, $ends): void {
    [$page, $name] = explode('/', trim($_SERVER['REQUEST_URI'], '/'), 2) + ['', ''];
    if ($page === 'page') {
        usleep(50_000);
        header('Cache-Control: public, max-age=3');
        header('Cache-Tag: pages');
        $answer(['page' => $name]);
        return;
    }
    if ($page === 'kept') {
        header('Cache-Control: public, max-age=600');
        header('Cache-Tag: kept, kept-' . $name);
        $answer(['page' => $name, 'made' => microtime(true)]);
        return;
    }
    if ($page === 'plain') {
        usleep(300_000);
        $answer(['page' => $name]);
        return;
    }
    header('Cache-Control: no-store');
    if (!$begins()) {
        // Without its session a visitor is not served as if he had none. HAProxy repeats 503.
        http_response_code(500);
        $answer(['sessions' => false]);
        return;
    }
    if ($page === 'login') {
        $_SESSION += ['visitor' => $name, 'count' => 0, 'keys' => []];
    }
    if ($page === 'count' && isset($_SESSION['visitor'])) {
        usleep(500_000);
        // The same key counts once, so that a request with it may be repeated.
        $_SESSION['keys'][$name] ??= ++$_SESSION['count'];
    }
    if (!$ends()) {
        http_response_code(500);
        $answer(['stored' => false]);
        return;
    }
    $answer([
        'visitor' => $_SESSION['visitor'] ?? null,
        'count' => $_SESSION['count'] ?? null,
        'number' => $_SESSION['keys'][$name] ?? null,
        'keys' => $page === 'me' ? $_SESSION['keys'] ?? null : null,
    ]);
};

while (tokamak_handle_request($handler)) {
}
