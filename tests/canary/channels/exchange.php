<?php
// The request that came in and the response that goes out. The polluting request has a form with a
// file, a cookie, a user and a header field of its own; the others have none.

return [
    '$_GET, $_POST, $_COOKIE, $_REQUEST, $_FILES' => new Channel(
        pollute: function () {
            foreach (['_GET', '_POST', '_COOKIE', '_REQUEST', '_FILES'] as $name) {
                $GLOBALS[$name]['written'] = 'polluted';
            }
        },
        probe: fn () => [array_diff_key($_GET, ['do' => 1]), $_POST, $_COOKIE, array_diff_key($_REQUEST, ['do' => 1]), array_keys($_FILES)],
    ),
    '$_SERVER' => new Channel(
        pollute: function () { $_SERVER['POLLUTED'] = 'polluted'; },
        probe: fn () => [
            $_SERVER['POLLUTED'] ?? null,
            $_SERVER['PHP_AUTH_USER'] ?? null,
            $_SERVER['HTTP_X_POLLUTED'] ?? null,
            $_SERVER['CONTENT_TYPE'] ?? null,
        ],
    ),
    '$_ENV' => new Channel(
        pollute: function () { $_ENV['POLLUTED'] = 'polluted'; },
        probe: fn () => $_ENV['POLLUTED'] ?? null,
    ),
    'reference to a superglobal' => new Channel(
        pollute: function () {
            Kept::$things['get'] = &$_GET;
            Kept::$things['get']['by reference'] = 'polluted';
        },
        probe: fn () => $_GET['by reference'] ?? null,
    ),
    'uploaded file' => new Channel(
        pollute: function () { file_put_contents(note('upload'), $_FILES['file']['tmp_name']); },
        probe: function () {
            $path = (string) @file_get_contents(note('upload'));
            return $path === '' ? [false, false] : [file_exists($path), is_uploaded_file($path)];
        },
    ),
    'php://input, left open' => new Channel(
        pollute: function () { Kept::$things['input'] = fopen('php://input', 'r'); },
        probe: fn () => is_resource(Kept::$things['input'] ?? null),
    ),
    'output buffers' => new Channel(
        pollute: function () { ob_start(fn (string $text) => $text); },
        probe: fn () => ob_list_handlers(),
    ),
    'output_add_rewrite_var()' => new Channel(
        pollute: function () { output_add_rewrite_var('polluted', 'yes'); },
        probe: function () {
            $rewrites = in_array('URL-Rewriter', ob_list_handlers());
            ob_start();
            $level = ob_get_level();
            output_add_rewrite_var('own', 'yes');
            echo '<form></form>';
            while (ob_get_level() > $level) {
                ob_end_flush();
            }
            return [$rewrites, substr_count(ob_get_clean(), '<input')];
        },
    ),
    'header()' => new Channel(
        pollute: function () { header('X-Polluted: yes'); },
        probe: fn () => headers_list(),
    ),
    'http_response_code()' => new Channel(
        pollute: function () { http_response_code(418); },
        probe: fn () => http_response_code(),
    ),
    'header_register_callback()' => new Channel(
        pollute: function () {
            header_register_callback(function () {
                if ($_GET['do'] === 'probe') {
                    header('X-Polluted: yes');
                }
            });
        },
        probe: fn () => null,
        later: true,
    ),
    'register_shutdown_function()' => new Channel(
        pollute: function () {
            register_shutdown_function(function () {
                if ($_GET['do'] === 'probe') {
                    touch(note('shutdown'));
                }
            });
        },
        probe: fn () => file_exists(note('shutdown')),
        later: true,
    ),
];
