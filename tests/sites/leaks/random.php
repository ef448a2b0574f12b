<?php
// Keeps now more and now less than the request before, and never more than 400 000 bytes.
require_once __DIR__.'/kept.php';
Kept::$last = str_repeat('x', random_int(0, 400_000));
echo "ok\n";
