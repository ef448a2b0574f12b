<?php

require 'Carbon/autoload.php';

$day = Carbon\CarbonImmutable::parse('2026-01-01 12:00', 'UTC');
$names = [];
for ($number = 0; $number < 100; $number++) {
    $names[] = $day->addDays($number)->setTimezone('Europe/Berlin')->isoFormat('dddd, LL');
}
echo end($names);
