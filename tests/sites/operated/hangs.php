<?php
// A boot that waits for something, for as long as it is not there.
while (!is_file(getenv('STATE') . '/go')) {
    clearstatcache();
    usleep(20_000);
}
