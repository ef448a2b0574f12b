<?php
// $_REQUEST is made only where it is used: here, in an included file, or not at all.
switch ($_GET['use'] ?? 'no') {
    case 'here':
        echo json_encode($_REQUEST);
        break;
    case 'included':
        require __DIR__ . '/lib/request.php';
        break;
    case 'variable':
        $name = '_REQUEST';
        echo isset($GLOBALS[$name]) ? 'made' : 'not made';
        break;
    default:
        echo 'unused';
}
