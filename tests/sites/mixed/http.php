<?php

// Clients of an HTTP service that does as it is told: answers, stalls, hangs up, talks rubbish.
// Answers that are none are the service's fault; those that are must be right.

/** Seconds. On a busy machine a good answer may take its time. */
function limit(string $how): float
{
    return in_array($how, ['echo', 'slow']) ? 30.0 : 0.2;
}

function url(string $token, string $how): string
{
    return 'http://127.0.0.1:'.getenv('HTTP')."/$how/$token";
}

function checked(mixed $answer, string $why): string
{
    if (!is_string($answer) || '' === $answer) {
        throw new RuntimeException("no answer: $why");
    }

    return $answer;
}

/** The answer unless it is cut short, or longer than any answer. */
function whole(string $token, mixed $answer): string
{
    return checked(strlen((string) $answer) === strlen($token) ? $answer : '', 'not all of it');
}

function by_stream(string $token, string $how): string
{
    $context = stream_context_create(['http' => ['timeout' => limit($how)]]);

    return whole($token, @file_get_contents(url($token, $how), false, $context));
}

function by_socket(string $token, string $how): string
{
    $port = (int) getenv('HTTP');
    $socket = @fsockopen('127.0.0.1', $port, $code, $why, limit($how));
    if (!$socket) {
        throw new RuntimeException($why);
    }
    stream_set_timeout($socket, (int) limit($how), 200_000);
    @fwrite($socket, "GET /$how/$token HTTP/1.0\r\n\r\n");
    $answer = (string) @stream_get_contents($socket);

    return whole($token, explode("\r\n\r\n", $answer, 2)[1] ?? '');
}

/** A curl handle for this, new or used before. */
function prepared(?CurlHandle $handle, string $token, string $how): CurlHandle
{
    $handle ??= curl_init();
    curl_setopt_array($handle, [
        CURLOPT_URL => url($token, $how),
        CURLOPT_RETURNTRANSFER => true,
        CURLOPT_TIMEOUT_MS => (int) (1000 * limit($how)),
    ]);

    return $handle;
}

/** With a handle that nobody uses, and with the connections that it has kept. */
function by_curl(array &$free, string $token, string $how): string
{
    $handle = prepared(array_pop($free), $token, $how);
    $answer = curl_exec($handle);
    $error = curl_error($handle);
    $free[] = $handle;

    return checked($answer, $error);
}

/** Two at once. */
function by_curl_multi(string $token, string $how): string
{
    $multi = curl_multi_init();
    $handles = [prepared(null, $token, 'echo'), prepared(null, $token, $how)];
    foreach ($handles as $handle) {
        curl_multi_add_handle($multi, $handle);
    }
    do {
        curl_multi_exec($multi, $running);
        curl_multi_select($multi, 1);
    } while ($running > 0);
    while ($done = curl_multi_info_read($multi)) {
        if ($done['result']) {
            throw new RuntimeException(curl_strerror($done['result']));
        }
    }
    $answers = array_map(curl_multi_getcontent(...), $handles);

    return checked($answers[0] === $answers[1] ? $answers[0] : implode(' and ', $answers), '');
}

function http_clients(): array
{
    $free = [];

    return [
        'stream' => by_stream(...),
        'socket' => by_socket(...),
        'multi' => by_curl_multi(...),
        'curl' => static function (string $token, string $how) use (&$free): string {
            return by_curl($free, $token, $how);
        },
    ];
}
