<?php

$rows = [];
for ($number = 0; $number < 30_000; $number++) {
    $rows[] = ['number' => $number, 'name' => 'row ' . $number * 7919 % 30_000];
}
usort($rows, static fn (array $one, array $other): int => $one['name'] <=> $other['name']);
echo strlen(json_encode($rows)), ' bytes of rows';
