<?php
// The front controller of a site: answers for every path that is no file.
echo 'front ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['REQUEST_URI'], ' [', $_SERVER['PATH_INFO'] ?? '', ']';
