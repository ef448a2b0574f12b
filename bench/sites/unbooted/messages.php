<?php

require 'GuzzleHttp/Psr7/autoload.php';

use GuzzleHttp\Psr7\Message;

$request = Message::parseRequest("POST /a?b=c HTTP/1.1\r\nHost: example\r\nContent-Length: 3\r\n\r\nabc");
for ($number = 0; $number < 100; $number++) {
    $request = $request->withHeader("X-Header-$number", "value $number");
}
echo strlen(Message::toString($request)), ' bytes';
