<?php
/* Says whether the request's file came whole, and whether a file of the client's name in the
 * worker's directory is still there. With `reads` it reads the body by itself. */
chdir(getenv('STATE'));
file_put_contents('kept.bin', 'stays');
while (tokamak_handle_request(static function (): void {
    if (isset($_GET['reads'])) {
        $body = (string) file_get_contents('php://input');
        echo strlen($body), ' ', count_chars($body, 3);

        return;
    }
    usleep(5000);
    $file = $_FILES['f'] ?? [];
    $part = $_POST['part'] ?? '?';
    $text = (string) @file_get_contents($file['tmp_name'] ?? '');
    echo json_encode([
        'name' => $file['name'] ?? null,
        'error' => $file['error'] ?? null,
        'whole' => $text !== '' && $text === str_repeat($part, $file['size'] / strlen($part)),
        'kept' => file_exists('kept.bin'),
    ]);
}));
