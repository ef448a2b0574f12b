<?php

// Requests that wait and do next to nothing beside it. Whom they ask and for how long they sleep
// stands in places.php, which the driver writes.

require __DIR__.'/places.php';

// A request takes a connection for as long as it asks.
$idle = [];
$handler = static function () use (&$idle): void {
    if ($_GET['for'] === 'sleep') {
        usleep(MICROSECONDS);
        $answer = '{"errno":0,"errmsg":"success","data":"e"}';
    } else {
        $call = array_pop($idle);
        if ($call === null) {
            $call = curl_init('http://'.SERVICE.'/');
            curl_setopt($call, CURLOPT_RETURNTRANSFER, true);
        }
        $answer = curl_exec($call);
        $idle[] = $call;
    }
    header('Content-Type: application/json');
    echo $answer;
};

while (tokamak_handle_request($handler)) {
}
