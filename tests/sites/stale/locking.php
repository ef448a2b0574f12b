<?php

// A boot of which no image can be taken, for it keeps a lock.

require __DIR__ . '/booted.php';
flock($lock = fopen(__FILE__, 'r'), LOCK_SH);
