<?php
// Takes an order as a form sends it, and nothing else.
$isOrder = $_SERVER['REQUEST_METHOD'] === 'POST' && ($_POST['thing'] ?? '') === 'tea';
http_response_code($isOrder ? 200 : 400);
