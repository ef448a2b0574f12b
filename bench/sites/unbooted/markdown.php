<?php

require 'League/CommonMark/autoload.php';

$text = str_repeat("# A title\n\nA *text* with [a link](https://example.org/) and `code`.\n\n- one\n- two\n\n", 20);
echo substr_count((new League\CommonMark\CommonMarkConverter())->convert($text), '<li>'), ' rows';
