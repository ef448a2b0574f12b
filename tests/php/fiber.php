<?php
// A fiber that suspends, calls into the server (headers, output, flush) and goes on.
header('Content-Type: text/plain');
$fiber = new Fiber(static function (): string {
    header('X-In-Fiber: yes');
    echo 'one ';
    $got = Fiber::suspend('from the fiber ');
    flush();
    echo $got, count(getallheaders()) > 0 ? 'headers ' : '';
    return 'three';
});
echo $fiber->start();
$fiber->resume('two ');
echo $fiber->getReturn();
