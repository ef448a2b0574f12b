<?php
// For php-cgi and php-fpm.
header('Content-Type: text/plain');
if (($_SERVER['PATH_INFO'] ?? '') === '/echo') {
    readfile('php://input');
} else {
    foreach ($_SERVER as $name => $value) {
        echo is_string($value) ? "$name=$value\n" : '';
    }
}
