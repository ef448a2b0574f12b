<?php

require __DIR__.'/functions.php';

tokamak_keep_connections(static function (): void {
    pdo(PLACES['mysql'], true);
    pdo(PLACES['pgsql'], true);
    redis(PLACES['redis'], true)->ping(); // says what it is
});
