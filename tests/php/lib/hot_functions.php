<?php
// Loops that differ in nothing but their name: where a profile is to find them.

function spend_most(int $rounds): int
{
    for ($sum = 0, $i = 0; $i < $rounds; $i++) {
        $sum += $i % 7;
    }
    return $sum;
}

function spend_little(int $rounds): int
{
    for ($sum = 0, $i = 0; $i < $rounds; $i++) {
        $sum += $i % 7;
    }
    return $sum;
}

function wait_a_while(): void
{
    usleep(400_000);
}
