<?php
// PHP behind php-cgi. Each request starts anew, so there is nothing to count in.
switch ($_SERVER['PATH_INFO'] ?? '') {
    case '/env':
        header('Content-Type: text/plain');
        $variables = array_filter($_SERVER, is_string(...));
        ksort($variables);
        foreach ($variables as $name => $value) {
            echo "$name=$value\n";
        }
        break;
    case '/echo':
        header('Content-Type: application/octet-stream');
        readfile('php://input');
        break;
    case '/complain':
        header('Content-Type: text/plain');
        error_log('something is wrong');
        echo "said\n";
        break;
    default:
        http_response_code(404);
        header('Content-Type: text/plain');
        echo "nothing here\n";
}
