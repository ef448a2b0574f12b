<?php
header('Content-Type: application/json');
echo json_encode([
    'get' => $_GET,
    'post' => $_POST,
    'cookie' => $_COOKIE,
    'files' => array_map(static fn (array $file): array => array_diff_key($file, ['tmp_name' => 0]), $_FILES),
    'request' => $_REQUEST,
    'input' => file_get_contents('php://input'),
]);
