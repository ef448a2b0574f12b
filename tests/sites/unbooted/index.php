<?php

// An application that boots in each request: classes, regular expressions, and some memory. It says
// how many page faults its process has had, and how many mappings for compiled expressions that are
// not the image's.

foreach (range(1, 50) as $number) {
    eval("abstract class Part$number { public array \$all = []; abstract function work(int \$n): int; }");
    preg_match("~^/(?<name>[a-z]+)/$number(?:/(?<id>\\d+))?\$~", '/name/'.$number);
}
$blocks = array_map(static fn (int $n): string => str_repeat(chr(64 + $n), 1000000), range(1, 12));
$big = str_repeat('b', 5000000);

header('Content-Type: text/plain');
echo getrusage()['ru_minflt'], ' ', preg_match_all('~ rwxp .* 0 *$~m', file_get_contents('/proc/self/maps'));
