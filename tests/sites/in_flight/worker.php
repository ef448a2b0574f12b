<?php
// Requests that wait for something, each in a function of its own, so that a stack names it.
use function Tokamak\await;

function waits_for_time(): void
{
    sleep(600);
}

function waits_for_a_service(): void
{
    $connection = stream_socket_client('tcp://' . $_GET['to'], $code, $error, 600);
    stream_set_timeout($connection, 600);
    fread($connection, 1);
}

function waits_for_a_lock(): void
{
    $file = fopen(__FILE__, 'r');
    flock($file, LOCK_EX);
    sleep(600);
}

function waits_for_a_process(): void
{
    proc_close(proc_open(['sleep', '30'], [], $pipes));
}

function waits_for_a_deferred(): void
{
    await(new Tokamak\Deferred());
}

function waits_in_coroutines(): void
{
    Tokamak\all([waits_for_time(...), waits_for_time(...)]);
}

function waits_for_its_client(): void
{
    for (;;) {
        echo str_repeat('x', 100_000);
    }
}

// Neither lets others run nor needs the processor.
function holds_the_worker(): void
{
    ob_start(static function (string $text): string {
        usleep(1000 * $_GET['n']);
        return $text;
    });
    echo 'held ';
    ob_end_flush();
}

function computes(): void
{
    // Stays in C code: no PHP statement is executed until it is done.
    hash_pbkdf2('sha512', 'a', 'b', 1_000_000_000);
}

function answers(): void
{
}

function dies(): void
{
    posix_kill(getmypid(), SIGKILL);
}

function throws(): void
{
    usleep(1000);
    throw new LogicException('thrown on purpose');
}

function fails(): void
{
    usleep(1000);
    trigger_error('failed on purpose', E_USER_ERROR);
}

function takes_all_memory(): void
{
    usleep(1000);
    $all = [];
    while (true) {
        $all[] = str_repeat('x', 1 << 20);
    }
}

function exits(): void
{
    usleep(1000);
    exit('left');
}

// A service that answers something else than HTTP.
function reads_garbage(): void
{
    if (file_get_contents('http://' . $_GET['to'] . '/') === false) {
        throw new UnexpectedValueException('garbage');
    }
}

while (tokamak_handle_request(static function (): void {
    $_GET['do']();
    echo 'done ', getmypid();
})) {
}
