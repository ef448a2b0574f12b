<?php

// Asks for one request and ends, so that it boots for each.

tokamak_handle_request(static function (): void {
    echo 'served';
});
