<?php
echo 'fetch ', $_GET['media'] ?? '', ' ', $_SERVER['REQUEST_URI'], ' ', $_SERVER['QUERY_STRING'], ' ', $_SERVER['SCRIPT_NAME'];
