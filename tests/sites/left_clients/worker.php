<?php

// A client leaves in each of these phases; notes tell how far its request has come.

use function Tokamak\{all, async, await};

$note = static fn (string $what) => touch(getenv('STATE') . '/' . $what . '-' . $_GET['n']);

/** Something that listens, and says nothing. */
$silent = stream_socket_server('tcp://127.0.0.1:0');
$address = 'tcp://' . stream_socket_get_name($silent, false);

$ask = static function () use ($address): void {
    $connection = stream_socket_client($address);
    fwrite($connection, "ping\n");
    fread($connection, 1);
};

$curl = static function () use ($address): void {
    curl_exec(curl_init(str_replace('tcp:', 'http:', $address) . '/'));
};

/** A body that does not come, or a response that nobody reads. */
$send = static function (): void {
    for (;;) {
        echo str_repeat('x', 100_000);
    }
};

$phases = [
    'body' => static fn () => file_get_contents('php://input'),
    'sleep' => static fn () => sleep(100),
    'socket' => $ask,
    'curl' => $curl,
    'coroutine' => static fn () => await(async($ask)),
    'coroutines' => static fn () => all([$ask, $curl, static fn () => sleep(100)]),
    'left-coroutine' => static fn () => async(static fn () => sleep(100)),
    'fiber' => static fn () => (new Fiber(static fn () => sleep(100)))->start(),
    'response' => $send,
    'finished' => static function (): void {
        echo 'finished';
        fastcgi_finish_request();
        usleep(1000);
    },
];

tokamak_handle_request(static function () use ($phases, $note): void {
    $phase = $_GET['phase'] ?? '';
    if ($phase === 'measure') {
        gc_collect_cycles();
        preg_match('/VmRSS:\s+(\d+)/', file_get_contents('/proc/self/status'), $resident);
        echo json_encode([
            'pid' => getmypid(),
            'descriptors' => count(scandir('/proc/self/fd')),
            'used' => memory_get_usage(),
            'resident' => 1024 * (int) $resident[1],
        ]);
        return;
    }
    if ($phase === 'small') {
        usleep(2000);
        echo 'small ', $_GET['n'];
        return;
    }
    register_shutdown_function(static fn () => $note('ended'));
    $note('begun');
    $phases[$phase]();
});
