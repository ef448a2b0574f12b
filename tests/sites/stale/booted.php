<?php

// A boot whose functions the pages need.

require __DIR__ . '/constant.php';

function of_the_boot(): int
{
    return CONSTANT;
}
