<?php
require_once __DIR__ . '/boot.php';
serve();
