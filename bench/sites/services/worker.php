<?php

require __DIR__.'/ask.php';

// Sealed mode keeps no other connection from one request to the next.
tokamak_keep_connections(static function (): void {
    redis()->ping();
});

while (tokamak_handle_request(answer(...))) {
}
