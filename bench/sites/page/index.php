<?php

// 10 KiB that the content cache may keep.
header('Content-Type: text/html; charset=utf-8');
header('Cache-Control: public, max-age=86400');
echo str_repeat("<p>0123456789abcdef0123</p>\n", 366);
