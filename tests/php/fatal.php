<?php
// Ends by a fatal error in a function that was given something, and something that is secret.
error_reporting(E_ALL & ~E_DEPRECATED); // of E_USER_ERROR, since 8.4
function inner(#[SensitiveParameter] string $secret, string $open): void
{
    trigger_error('fatal on purpose', E_USER_ERROR);
}
if (isset($_GET['shown'])) {
    register_shutdown_function(static function (): void {
        echo json_encode(error_get_last());
    });
}
inner('hidden', 'what is given');
