<?php
declare(ticks=1);

/** Runs a few statements at which tick functions are called. */
function tick(): void
{
    $a = 1;
    $b = 2;
}
