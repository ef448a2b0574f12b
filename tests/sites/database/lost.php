<?php

// Connects once, above the loop. A request may end this connection while it uses it: the client
// library then closes its socket, and nothing of the connection is left to be seen.

$database = new PDO(getenv('DSN'), 'reactor', getenv('PASSWORD'));

$handler = static function () use ($database): void {
    header('Worker: '.getmypid());
    try {
        if (isset($_GET['end'])) {
            $database->query('SELECT pg_terminate_backend(pg_backend_pid())');
        }
        echo $database->query('SELECT 6 * 7')->fetchColumn();
    } catch (PDOException $failure) {
        http_response_code(500);
        echo $failure->getMessage();
    }
};

while (tokamak_handle_request($handler)) {
}
