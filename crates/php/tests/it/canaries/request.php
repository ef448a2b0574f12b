<?php
/* What a request came with, and what it says. */

/** Keeps sessions in memory, and waits for it. */
class SlowSessions implements SessionHandlerInterface
{
    private static array $kept = [];

    public function __construct(private int $n) {}
    public function open(string $path, string $name): bool { return true; }
    public function close(): bool { return true; }
    public function destroy(string $id): bool { return true; }
    public function gc(int $seconds): int|false { return 0; }

    public function read(string $id): string|false
    {
        wait();
        return self::$kept[$this->n][$id] ?? '';
    }

    public function write(string $id, string $data): bool
    {
        wait();
        self::$kept[$this->n][$id] = $data;
        return true;
    }
}

/** The fields that a request sends, as canaries/bodies.rs writes them. */
function fields(int $n, int $count): array
{
    $fields = [];
    for ($k = 0; $k < $count; $k++) {
        $fields["of$n"]["k$k"][] = "$n.$k." . str_repeat('x', 60);
    }
    return ['v' => $fields];
}

/** What is wrong with the files that it sends. */
function wrong_files(int $n): string
{
    foreach ([0, 1, 2] as $k) {
        $file = array_map(fn($of) => $of["of$n"]["k$k"] ?? 'none', $_FILES['g'] ?? []);
        $text = str_repeat("$n.$k.", 2000);
        $expected = ['name' => "name-$n-$k", 'full_path' => "name-$n-$k", 'type' => 'text/x',
            'tmp_name' => $file['tmp_name'] ?? '', 'error' => 0, 'size' => strlen($text)];
        if ($file !== $expected || !is_uploaded_file($file['tmp_name'])
            || file_get_contents($file['tmp_name']) !== $text) {
            return json_encode($file);
        }
    }
    return '';
}

return [
    'The request' => [
        '`$_GET`' => own(fn($n) => $_GET['v'] = $n, fn() => $_GET['v']),
        '`$_POST`' => own(fn($n) => $_POST['v'] = $n, fn() => $_POST['v']),
        '`$_COOKIE`' => own(fn($n) => $_COOKIE['v'] = $n, fn() => $_COOKIE['v']),
        '`$_REQUEST`' => own(fn($n) => $_REQUEST['v'] = $n, fn() => $_REQUEST['v']),
        '`$_SERVER`' => own(fn($n) => $_SERVER['v'] = $n, fn() => $_SERVER['v']),
        '`$_FILES`' => own(fn($n) => $_FILES['v'] = $n, fn() => $_FILES['v']),
        '`$_ENV`' => own(fn($n) => $_ENV['v'] = $n, fn() => $_ENV['v']),
        '`$_FILES` that is unset' => own(
            function ($n) {
                if ($n % 2) {
                    unset($_FILES);
                }
            },
            fn($n) => told($n, array_key_exists('_FILES', $GLOBALS) === ($n % 2 === 0))),
        '`php://input`' => own(fn() => null, fn() => (int) file_get_contents('php://input')),
        'uploaded files' => own(fn() => null, fn() => is_uploaded_file($_FILES['f']['tmp_name'])
            ? (int) file_get_contents($_FILES['f']['tmp_name']) : 'none'),
        '`$_POST` of a long form' => own(fn() => null,
            fn($n) => told($n, $_POST === fields($n, 400), json_encode($_POST))),
        '`$_POST` and `$_FILES` of a long multipart body' => own(fn() => null, fn($n) => told($n,
            $_POST === fields($n, 60) && !wrong_files($n),
            wrong_files($n) . json_encode($_POST))),
        '`php://input` that is long' => own(fn() => null,
            fn($n) => told($n, file_get_contents('php://input') === str_repeat("$n ", 9000))),
        '`php://input` of a `PUT`' => own(fn() => null,
            fn($n) => told($n, file_get_contents('php://input') === str_repeat("$n ", 9000))),
        '`filter_input()`' => own(fn() => null, fn() => (int) filter_input(INPUT_GET, 'n')),
        '`getallheaders()`' => own(fn() => null, fn() => (int) getallheaders()['N']),
        '`getenv()` of its fields' => own(fn() => null, fn() => (int) getenv('HTTP_N')),
    ],
    'The response' => [
        '`header()`' => own(fn($n) => header("X-V: $n"),
            fn() => (int) substr(current(preg_grep('/^X-V/', headers_list())), 5)),
        '`setcookie()`' => own(fn($n) => setcookie('v', "$n"), fn() =>
            (int) explode('=', current(preg_grep('/^Set-Cookie/', headers_list())))[1]),
        '`http_response_code()`' => own(fn($n) => http_response_code(400 + $n),
            fn() => http_response_code() - 400),
        '`header_register_callback()`' => own(
            fn($n) => header_register_callback(fn() => header("X-Row: ($n)")), fn($n) => $n),
        'output buffers' => own(
            function ($n) {
                while (ob_get_level()) {
                    ob_end_clean();
                }
                ob_start();
                echo $n;
            },
            fn() => (int) ob_get_contents()),
        'callbacks of output buffers' => own(fn() => null, function ($n) {
            ob_start();
            ob_start(fn() => (string) $n);
            echo 'x';
            wait();
            ob_end_flush();
            return (int) ob_get_clean();
        }),
        'callbacks of output buffers that the end of the request calls' => own(
            fn() => null, fn($n) => $n, function ($n) {
                ob_start(fn($text) => $text . "($n)");
                ob_start(fn($text) => strrev($text));
                echo strrev("($n)");
                register_shutdown_function(function () use ($n) { wait(); echo strrev("($n)"); });
            }),
        'depth of output buffers' => own(
            function ($n) {
                while (ob_get_level() < 1 + $n % 5) {
                    ob_start();
                }
            },
            fn($n) => told($n, ob_get_level() === 1 + $n % 5, ob_get_level() . ' buffers')),
        '`output_add_rewrite_var()`' => own(
            fn($n) => output_add_rewrite_var('v', "($n)"), fn($n) => $n,
            fn() => print '<a href="/x">'),
        '`connection_status()`' => own(fn() => null,
            fn($n) => told($n, connection_status() === 0)),
        '`ignore_user_abort()`' => own(fn($n) => ignore_user_abort((bool) ($n % 2)),
            fn($n) => told($n, ignore_user_abort() === $n % 2)),
    ],
    'The session' => [
        '`$_SESSION`' => own(fn($n) => $_SESSION['v'] = $n, fn() => $_SESSION['v']),
        '`$_SESSION` before there is one' => own(
            function ($n) {
                if ($n % 2) {
                    $_SESSION['v'] = $n;
                }
            },
            fn($n) => told($n, array_key_exists('_SESSION', $GLOBALS) === (bool) ($n % 2))),
        '`session_id()`' => own(fn($n) => session_id("id$n"), fn() => (int) substr(session_id(), 2)),
        '`session_name()`' => own(fn($n) => session_name("N$n"),
            fn() => (int) substr(session_name(), 1)),
        '`session_cache_expire()`' => own(fn($n) => session_cache_expire($n),
            fn() => session_cache_expire()),
        '`session_cache_limiter()`' => own(
            fn($n) => session_cache_limiter(nth(['public', 'private', 'nocache'], $n)),
            fn($n) => told($n,
                session_cache_limiter() === nth(['public', 'private', 'nocache'], $n))),
        '`session_set_cookie_params()`' => own(
            fn($n) => session_set_cookie_params(['lifetime' => $n]),
            fn() => session_get_cookie_params()['lifetime']),
        '`session_module_name()`' => own(
            fn($n) => $n % 2 && session_set_save_handler(new SessionHandler),
            fn($n) => told($n, [session_module_name(), ini_get('session.save_handler')]
                === array_fill(0, 2, nth(['files', 'user'], $n)), session_module_name())),
        '`session_set_save_handler()`' => own(
            function ($n) {
                session_set_save_handler(new SlowSessions($n));
                session_id("id$n");
                session_start();
                $_SESSION['v'] = $n;
            },
            function () {
                session_write_close();
                session_start();
                return $_SESSION['v'];
            }),
        '`session_start()` with files' => own(
            function ($n) {
                session_id("files$n");
                session_start(['lazy_write' => false]);
                $_SESSION['v'] = $n;
            },
            function ($n) {
                session_write_close();
                session_start();
                return session_id() === "files$n" ? $_SESSION['v'] : session_id();
            }),
        'a session that the end of the request writes' => own(
            function ($n) {
                session_set_save_handler(new SlowSessions($n), true);
                session_start();
                $_SESSION['v'] = $n;
            },
            fn() => $_SESSION['v'],
            fn() => register_shutdown_function(function () { wait(); echo "({$_SESSION['v']})"; })),
    ],
];
