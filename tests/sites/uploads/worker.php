<?php
/* Says whether the request's file came whole, and whether a file of the client's name in the
 * worker's directory is still there. */
file_put_contents(getcwd() . '/' . getenv('KEPT'), 'stays');
while (tokamak_handle_request(static function (): void {
    usleep(5000);
    $file = $_FILES['f'] ?? [];
    echo json_encode([
        'name' => $file['name'] ?? null,
        'error' => $file['error'] ?? null,
        'whole' => hash_file('sha256', $file['tmp_name'] ?? '/dev/null') === ($_POST['sum'] ?? null),
        'kept' => file_exists(getcwd() . '/' . getenv('KEPT')),
    ]);
}));
