<?php
// What became of the uploaded file `document`; it is moved if ?move is asked for.
header('Content-Type: application/json');
$file = $_FILES['document'];
$moved = getenv('STATE') . '/moved';
echo json_encode([
    'name' => $file['name'],
    'full_path' => $file['full_path'],
    'type' => $file['type'],
    'size' => $file['size'],
    'error' => $file['error'],
    'crc32' => $file['error'] === 0 ? hash_file('crc32b', $file['tmp_name']) : null,
    'is_uploaded' => is_uploaded_file($file['tmp_name']),
    'others_are_not' => is_uploaded_file(__FILE__),
    'in_upload_dir' => dirname($file['tmp_name']) === ini_get('upload_tmp_dir'),
    'moved' => isset($_GET['move']) && move_uploaded_file($file['tmp_name'], $moved),
    'field' => $_POST['field'] ?? null,
    'input' => file_get_contents('php://input'),
]);
file_put_contents(getenv('STATE') . '/upload-name', $file['tmp_name']);
