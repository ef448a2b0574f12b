<?php
// Says which of several php-fpm pools answers, and whom. A request may take its time.
usleep(1000 * (int) ($_GET['ms'] ?? 0));
echo getenv('POOL'), ' ', $_SERVER['REQUEST_URI'];
