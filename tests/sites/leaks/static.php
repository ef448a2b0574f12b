<?php
// Leaks 10 000 bytes of PHP's own memory where statics live on: three pages of 4 KiB.
require_once __DIR__.'/kept.php';
Kept::$log[] = str_repeat(chr(97 + count(Kept::$log) % 26), 10_000);
echo "ok\n";
