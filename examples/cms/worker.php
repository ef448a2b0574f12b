<?php

declare(strict_types=1);

// The worker script of async mode. Above the loop is what all requests share: code, and the list of
// connections. It is safe to share because nothing in it says which request is served.

require __DIR__.'/src/site.php';
require __DIR__.'/src/Connections.php';

$connections = new Cms\Connections(Cms\settings());
$connections->lend(Cms\install(...));

$respond = static function () use ($connections): void {
    // A connection has one user at a time: what it was asked, and its transaction, belong together.
    $connections->lend(static fn (PDO $database) => Cms\respond($database));
};

// Async mode calls it for many requests at once, and returns when the worker is to leave; worker
// mode returns after each.
while (tokamak_handle_request($respond)) {
}
