<?php
// Sends the raw body back, with its type.
header('Content-Type: ' . ($_SERVER['CONTENT_TYPE'] ?? 'text/plain'));
echo file_get_contents('php://input');
