<?php

declare(strict_types=1);

// The same site with its code loaded once:  tokamak serve examples/demo --worker examples/demo/worker.php
// Everything above the loop happens when the worker starts, the closure once for each request.

require __DIR__ . '/src/app.php';

while (tokamak_handle_request(static function (): void {
    Demo\respond(Demo\Run::Worker);
}));
