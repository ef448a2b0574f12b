<?php
// The worker's function, called by a script that is no worker (or from inside the handler).
foreach (['tokamak_handle_request', 'frankenphp_handle_request'] as $function) {
    try {
        $function(static fn () => null);
        echo 'called ';
    } catch (Throwable $problem) {
        echo get_class($problem), ' ';
    }
}
