<?php

declare(strict_types=1);

// The demo site: a route table, one file a page, one layout. No framework, so that what you see is
// PHP's and the server's own time.

namespace Demo;

/** Who called us: a script that runs once for a request, or a loop that stays. */
enum Run: string
{
    case Classic = 'classic';
    case Worker = 'worker';
}

/** Path => file below pages/, title, one line about it, and whether the start page lists it. */
const ROUTES = [
    '/' => ['home', 'Tokamak', 'Your PHP runs.', false],
    '/api' => ['api', 'JSON', 'What the timing on the start page asks for: one small JSON object.', true],
    '/form' => ['form', 'Form and upload', 'Post fields and a file; see what arrives in $_POST and $_FILES.', true],
    '/session' => ['session', 'Session', 'PHP\'s own sessions: a counter that is yours alone.', true],
    '/request' => ['request', 'Request', 'The headers that your browser sent and what became of them in $_SERVER.', true],
    '/stream' => ['stream', 'Streaming', 'Server-sent events: every flush() reaches the browser at once.', true],
    '/events' => ['events', 'Events', 'The stream itself.', false],
];

/** Escapes text for HTML, attributes included. */
function e(string|int|float $text): string
{
    return htmlspecialchars((string) $text, ENT_QUOTES | ENT_SUBSTITUTE | ENT_HTML5, 'UTF-8');
}

/**
 * Requests that this process has served, this one included, by the server's own count; null where
 * there is none.
 */
function served(): ?int
{
    $workers = function_exists('fpm_get_status') ? fpm_get_status()['procs'] ?? [] : [];
    $own = array_filter($workers, static fn (array $worker) => $worker['pid'] === getmypid());
    return $own === [] ? null : reset($own)['requests'] + 1;
}

/** Bytes as a person says them. */
function size(int $bytes): string
{
    return $bytes < 1 << 20 ? round($bytes / 1024) . ' KiB' : number_format($bytes / (1 << 20), 1) . ' MiB';
}

/** Answers the current request. */
function respond(Run $run): void
{
    $path = parse_url($_SERVER['REQUEST_URI'] ?? '/', PHP_URL_PATH) ?: '/';
    if ($path !== '/' && str_ends_with($path, '/')) {
        $path = rtrim($path, '/');
    }
    $known = isset(ROUTES[$path]);
    [$file, $title] = $known ? ROUTES[$path] : ['missing', 'Not here'];
    if (!$known) {
        http_response_code(404);
    }
    $page = static fn (array $with) => include __DIR__ . "/pages/$file.php";

    if ($file === 'api' || $file === 'events') {
        $page(['run' => $run]);
        return;
    }
    ob_start();
    try {
        $page(['run' => $run, 'path' => $path]);
    } finally {
        $body = ob_get_clean();
    }
    header('Content-Type: text/html; charset=utf-8');
    header("Content-Security-Policy: default-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        . "form-action 'self'; base-uri 'none'; frame-ancestors 'none'");
    header('X-Content-Type-Options: nosniff');
    header('Cache-Control: no-store');
    $layout = static fn (string $title, string $body, bool $home) => include __DIR__ . '/layout.php';
    $layout($title, $body, $path === '/');
}
