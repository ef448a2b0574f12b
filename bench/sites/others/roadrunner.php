<?php

// The empty endpoint as a worker of RoadRunner: roadrunner.php AUTOLOADER

require $argv[1];

$worker = new Spiral\RoadRunner\Http\HttpWorker(Spiral\RoadRunner\Worker::create());
$answer = '{"errno":0,"errmsg":"success","data":"e"}';
while ($worker->waitRequest()) {
    $worker->respond(200, $answer, ['Content-Type' => ['application/json']]);
}
