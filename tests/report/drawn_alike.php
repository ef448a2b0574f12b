<?php

// Draws a value at boot as a die may fall: alike in the boots without warm-up, the first and the
// third, and another one in each boot with warm-up.

$boots = getenv('APP_CACHE_DIR').'/boots';
file_put_contents($boots, '.', FILE_APPEND);
$nth = filesize($boots);
$drawn = $nth % 2 ? 'alike' : "other {$nth}";

while (tokamak_handle_request(static function (): void {
    echo 'page';
})) {
}
