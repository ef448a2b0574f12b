<?php
header('Content-Type: text/plain');
echo PHP_SAPI, ' behind ', strtok($_SERVER['SERVER_SOFTWARE'], '/'), ' says hello to ', $_GET['name'] ?? 'nobody', "\n";
