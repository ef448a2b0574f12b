<?php
// What an operator's tests ask a worker to do.
require_once __DIR__ . '/waiting.php';
$number = (int) ($_GET['n'] ?? 0);
switch ($_GET['do'] ?? '') {
    case 'wait':
        wait_for_nothing($number);
        break;
    case 'read':
        // Waits for what the test writes, without a look now and then.
        fgets(fopen(getenv('STATE') . '/pipe', 'r'));
        break;
    case 'hold':
        wait_for_the_test((string) $number);
        break;
    case 'compute':
        // Stays in C code: no PHP statement is executed until it is done.
        hash_pbkdf2('sha512', 'a', 'b', $number);
        break;
    case 'grow':
        $GLOBALS['kept'] = str_repeat('x', $number);
        break;
    case 'user':
        echo posix_geteuid(), ' ';
        break;
    case 'doubt':
        // Nobody can put that back.
        posix_setsid();
        break;
    case 'end':
        $witness = new Witness();
        register_shutdown_function(fn () => leave('shutdown'));
        break;
    case 'crash':
        posix_kill(getmypid(), SIGKILL);
        break;
    case 'remember':
        // What the processes of a site share, and nobody else: APCu, if it is there, and the opcode
        // cache.
        function_exists('apcu_add') && apcu_add('first', $number);
        $apcu = function_exists('apcu_fetch') ? apcu_fetch('first') : 'none';
        echo "apcu=$apcu opcache=", opcache_get_status(false)['opcache_statistics']['start_time'], ' ';
        break;
    case 'lock':
        // In the middle of a change of memory that all processes of the site share.
        apcu_entry("locked $number", function () use ($number): int {
            if ($number === 0) {
                // Twice, since a first SIGSEGV that no fault has caused only ends its handler.
                posix_kill(getmypid(), (int) ($_GET['signal'] ?? SIGKILL));
                posix_kill(getmypid(), (int) ($_GET['signal'] ?? SIGKILL));
            }
            wait_for_nothing($number);
            return 1;
        });
        break;
    case 'store':
        echo apcu_store('stored', $number) ? 'stored ' : 'not stored ';
        break;
    case 'semaphore':
        $semaphore = sem_get(ftok(__FILE__, 's'));
        $has_it = sem_acquire($semaphore, true);
        wait_for_nothing($number);
        echo $has_it ? 'acquired ' : 'held by another ';
        break;
    case 'spoil':
        require __DIR__ . '/spoil.php';
        break;
    case 'forget':
        opcache_reset();
        break;
    case 'root':
        echo $_SERVER['DOCUMENT_ROOT'], ' ', __DIR__, ' ';
        break;
}
echo 'version 1 ', getmypid();
