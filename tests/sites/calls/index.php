<?php
require __DIR__ . '/functions.php';

$_GET['do']();
echo "done\n";
