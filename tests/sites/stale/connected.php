<?php

// As a library that closes its connection when it finds that the peer has.

$peer = stream_socket_client('tcp://' . getenv('PEER'));
while (tokamak_handle_request(static function () use (&$peer): void {
    if ($peer && (fwrite($peer, "how are you\n") === false || !fgets($peer))) {
        fclose($peer);
        $peer = null;
    }
    if (!$peer) {
        http_response_code(500);
    }
    echo getmypid();
})) {
}
