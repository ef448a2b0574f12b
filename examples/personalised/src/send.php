<?php

namespace Personalised;

/** @param array{int, array<string, string>, string} $response */
function send(array $response): void
{
    [$status, $headers, $body] = $response;
    http_response_code($status);
    foreach ($headers as $name => $value) {
        header("$name: $value");
    }
    echo $body;
}
