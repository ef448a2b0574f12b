<?php

session_save_path(getenv('DATA'));
session_id('benchvisitor');
session_start(['use_strict_mode' => false]);
$_SESSION['visits'] = ($_SESSION['visits'] ?? 0) + 1;
session_write_close();
echo 'visited';
