<?php
// How much of a request PHP has read, and what it said of the rest.
echo json_encode([
    'get' => count($_GET),
    'post' => count($_POST, COUNT_RECURSIVE),
    'cookie' => count($_COOKIE),
    'files' => count($_FILES),
    'said' => error_get_last()['message'] ?? null,
]);
