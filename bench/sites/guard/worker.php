<?php

$handler = static function (): void {
    header('Content-Type: application/json');
    echo json_encode(['path' => $_SERVER['REQUEST_URI'], 'id' => $_GET['id']]);
};

while (tokamak_handle_request($handler)) {
}
