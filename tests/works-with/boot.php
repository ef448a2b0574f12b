<?php
require_once __DIR__ . '/row.php';
$made = made();
