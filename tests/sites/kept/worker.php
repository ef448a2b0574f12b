<?php

// The same in the handler of a worker script: warm-up requests connect before the image is taken.

require __DIR__.'/boot.php';

while (tokamak_handle_request(static fn () => require __DIR__.'/index.php')) {
}
