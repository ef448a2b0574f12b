<?php

// As worker.php, but each request waits once, so its Fiber goes and comes back.
$handler = static function (): void {
    usleep(100);
    header('Content-Type: application/json');
    echo json_encode(['path' => $_SERVER['REQUEST_URI'], 'id' => $_GET['id']]);
};

while (tokamak_handle_request($handler)) {
}
