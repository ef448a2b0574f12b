<?php
header('Content-Type: application/json');
if (isset($_GET['put'])) {
    putenv($_GET['put']);
}
if (isset($_GET['edit'])) {
    $_ENV['EDITED'] = $_SERVER['EDITED'] = 'yes';
}
$seen = [];
foreach (['SITE_VAR', 'LEAK', 'PATH', 'EDITED', 'USER', 'HOME'] as $name) {
    $seen[$name] = ['getenv' => getenv($name), 'server' => $_SERVER[$name] ?? null, 'env' => $_ENV[$name] ?? null];
}
echo json_encode($seen);
