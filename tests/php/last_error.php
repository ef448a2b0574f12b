<?php
// What the last error was, after a moment in which others run.
if (isset($_GET['warn'])) {
    @file_get_contents('/none');
}
if (isset($_GET['name'])) {
    ob_start();
    require __DIR__ . '/hold.php';
    ob_end_clean();
}
header('Content-Type: application/json');
echo json_encode(error_get_last());
