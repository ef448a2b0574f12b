<?php
function linger(): int
{
    return sleep(1);
}

echo linger() === 0 ? 'slept for the whole time' : 'cut short';
