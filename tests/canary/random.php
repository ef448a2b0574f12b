<?php
require_once __DIR__ . '/generators.php';
if (isset($_GET['meeting'])) {
    meet($_GET['meeting'], (int) $_GET['of']);
}
echo json_encode(['pid' => getmypid()] + random_values());
