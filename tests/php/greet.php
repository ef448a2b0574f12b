<?php
// Answers a call of gRPC: two messages and its status, or the status of a bad call.
$name = substr(file_get_contents('php://input'), 5);
header('Content-Type: application/grpc');
if ($name === '') {
    tokamak_trailer('grpc-status', '3');
    tokamak_trailer('grpc-message', 'nobody to greet');
    return;
}
foreach (["Hello, $name", str_repeat('bye ', 50000)] as $message) {
    echo pack('CN', 0, strlen($message)), $message;
    flush();
}
tokamak_trailer('grpc-status', '0');
