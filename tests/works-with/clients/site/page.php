<?php
header('Content-Type: text/plain');
echo 'This is page ', (int) ($_GET['n'] ?? 0), ".\n";
