<?php

require 'Monolog/autoload.php';

$handler = new Monolog\Handler\TestHandler();
$log = new Monolog\Logger('bench', [$handler], [new Monolog\Processor\PsrLogMessageProcessor()]);
for ($number = 0; $number < 100; $number++) {
    $log->info('line {number}', ['number' => $number]);
}
echo count($handler->getRecords()), ' lines';
