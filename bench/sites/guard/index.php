<?php

// As the empty endpoint, but it looks at its request, as every application does.
header('Content-Type: application/json');
echo json_encode(['path' => $_SERVER['REQUEST_URI'], 'id' => $_GET['id']]);
