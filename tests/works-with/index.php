<?php
require_once __DIR__ . '/row.php';
answer($made ?? made());
