<?php

declare(strict_types=1);

// All of the site. What belongs to a request is in PHP's own places ($_GET, $_SESSION, headers),
// of which each request has its own, or is handed on as an argument. Nothing is kept in static or
// global variables.

namespace Cms;

use PDO;

require __DIR__.'/articles.php';

/** Where the database is. SQLite needs no server: enough to look at the site. */
function settings(): array
{
    $file = 'sqlite:'.sys_get_temp_dir().'/tokamak-cms-'.posix_geteuid().'.db';

    return [getenv('CMS_DSN') ?: $file, getenv('CMS_USER') ?: null, getenv('CMS_PASSWORD') ?: null];
}

function connect(array $settings): PDO
{
    [$dsn, $user, $password] = $settings;

    return new PDO($dsn, $user, $password, [
        PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_ASSOC,
        PDO::ATTR_TIMEOUT => 5,
    ]);
}

/** Answers the request. */
function respond(PDO $database): void
{
    $path = rawurldecode(parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH) ?: '/');
    $page = [$_SERVER['REQUEST_METHOD'], ...explode('/', trim($path, '/'))];
    match (true) {
        $page === ['GET', ''] => articles($database, $_GET['about'] ?? ''),
        $page[0] === 'GET' && $page[1] === 'article' => article($database, $page[2] ?? ''),
        $page[0] === 'POST' && $page[1] === 'article' => comment($database, $page[2] ?? ''),
        $page === ['GET', 'write'] => show('write', ['name' => user()]),
        $page === ['POST', 'write'] => write($database),
        $page === ['POST', 'login'] => login(),
        default => missing(),
    };
}

function articles(PDO $database, string $about): void
{
    show('list', ['about' => $about, 'articles' => latest($database, $about)]);
}

function article(PDO $database, string $slug): void
{
    $article = find($database, $slug);
    $article ? show('article', $article) : missing();
}

function comment(PDO $database, string $slug): void
{
    $text = trim($_POST['text'] ?? '');
    $article = find($database, $slug);
    if (!$article) {
        missing();

        return;
    }
    if ($text !== '') {
        add_comment($database, $article['id'], user() ?? 'somebody', $text);
    }
    see_other("/article/$slug");
}

/** Whoever has said a name may write. */
function write(PDO $database): void
{
    $author = user();
    $slug = $_POST['slug'] ?? '';
    $title = trim($_POST['title'] ?? '');
    if ($author === null || $title === '' || !preg_match('/^[a-z0-9-]{1,60}$/', $slug)) {
        http_response_code($author === null ? 403 : 422);
        show('write', ['name' => $author]);

        return;
    }
    save($database, $slug, $title, $_POST['text'] ?? '', $author);
    see_other("/article/$slug");
}

function login(): void
{
    session_start();
    session_regenerate_id(true);
    $_SESSION['name'] = trim($_POST['name'] ?? '') ?: null;
    see_other('/write');
}

/** Who is logged in. The session is closed at once, so that other requests of it need not wait. */
function user(): ?string
{
    if (!isset($_COOKIE[session_name()])) {
        return null;
    }
    session_status() === PHP_SESSION_ACTIVE || session_start(['read_and_close' => true]);

    return $_SESSION['name'] ?? null;
}

function see_other(string $path): void
{
    http_response_code(303);
    header("Location: $path");
}

function missing(): void
{
    http_response_code(404);
    show('missing', []);
}

/** A page: the template sees $page and $html, which makes a text safe to show. */
function show(string $template, array $page): void
{
    $html = static fn (string $text): string => htmlspecialchars($text);
    header('Content-Type: text/html; charset=UTF-8');
    ob_start();
    include __DIR__."/../templates/$template.php";
    $content = ob_get_clean();
    include __DIR__.'/../templates/layout.php';
}
