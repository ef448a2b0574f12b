<?php

// A bit of everything that an application does while it serves a request, with services that may
// go away or answer anything. Each part of the answer says the request's token, by another way, or
// else why it does not: what a part says must never be another request's.

require __DIR__.'/lasting.php';
require __DIR__.'/services.php';
require __DIR__.'/http.php';

/** What the request itself carries; each part is read before and after every wait. */
function carried(): array
{
    return [
        'get' => $_GET['token'] ?? '',
        'post' => $_POST['token'] ?? $_GET['token'],
        'cookie' => $_COOKIE['token'] ?? '',
        'body' => 'POST' === $_SERVER['REQUEST_METHOD']
            ? substr(file_get_contents('php://input'), strlen('token='))
            : $_GET['token'],
        'header' => $_SERVER['HTTP_TOKEN'] ?? '',
        'session' => $_SESSION['token'] ?? $_GET['token'],
    ];
}

$parts = services() + http_clients();

tokamak_handle_request(static function () use ($parts): void {
    $said = [];
    $failed = [];
    if (isset($_GET['session'])) {
        session_id($_GET['session']);
        session_start();
        $_SESSION['token'] = $_GET['token'];
    }
    ob_start();
    foreach (explode(',', $_GET['do']) as $name) {
        [$part, $how] = explode(':', "$name:");
        try {
            $said[] = $parts[$part]($_GET['token'], $how);
        } catch (Exception $failure) {
            $failed[$name] = $failure::class.': '.$failure->getMessage();
        }
        array_push($said, ...array_values(carried()));
    }
    ob_end_clean();
    header('Content-Type: application/json');
    header('Token: '.$_GET['token']);
    echo json_encode([
        'pid' => getmypid(),
        'said' => array_values(array_unique($said)),
        'failed' => (object) $failed,
    ], JSON_INVALID_UTF8_SUBSTITUTE | JSON_THROW_ON_ERROR);
});
