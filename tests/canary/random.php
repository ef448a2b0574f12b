<?php
require_once __DIR__ . '/generators.php';
echo json_encode(['pid' => getmypid()] + random_values());
