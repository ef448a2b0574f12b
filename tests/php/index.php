<?php
// As server.php: the index of the root, and the front controller where there is one.
require __DIR__ . '/server.php';
