<?php

require __DIR__.'/ask.php';

// A request has a connection for as long as it asks. In worker mode a pool has one; in async mode
// as many as a database likes to be asked by at once: with one for each request, it would have as
// many processes as there are clients.
$pools = [];
foreach (['mysql', 'pgsql'] as $on) {
    $pools[$on] = new Tokamak\Pool(static fn (): PDO => connection($on, false), size: 4);
}
$handler = static function () use ($pools): void {
    $pools[$_GET['on']]->use(answer(...));
};

while (tokamak_handle_request($handler)) {
}
