<?php

// Changes what the kernel keeps for this process, by ways that no function of the server sees; or
// says how it stands.

function libc(): FFI
{
    static $libc;
    return $libc ??= FFI::cdef('
        long syscall(long number, ...);
        long mmap(long at, size_t length, int protection, int flags, int descriptor, long offset);
        void *memcpy(long to, long from, size_t length);
        long dlsym(long library, const char *name);
    ');
}

/** A page of PHP's code. */
function page_of_php(): int
{
    return libc()->dlsym(0, 'zend_extension_dispatch_message') & ~(PAGE - 1);
}

const PAGE = 4096;

$ways = [
    // Each is the number of the call, because libc's functions are watched.
    'setresuid' => fn () => libc()->syscall(117, -1, -1, 1),
    'setgroups' => function () {
        $groups = libc()->new('int[1]');
        $groups[0] = 12345;
        libc()->syscall(116, 1, FFI::addr($groups));
    },
    'unshare' => fn () => libc()->syscall(272, 0x04000000), // CLONE_NEWUTS
    'oom_score_adj' => fn () => file_put_contents('/proc/self/oom_score_adj', '500'),
    // PROT_READ | PROT_WRITE | PROT_EXEC: code that could be changed for the next visitor.
    'mprotect' => fn () => libc()->syscall(10, page_of_php(), PAGE, 7),
    // The same bytes, in other memory.
    'mremap' => function () {
        $own = libc()->mmap(0, PAGE, 3, 0x22, -1, 0);
        libc()->memcpy($own, page_of_php(), PAGE);
        libc()->syscall(10, $own, PAGE, 5);
        libc()->syscall(25, $own, PAGE, PAGE, 3, page_of_php()); // MREMAP_MAYMOVE | MREMAP_FIXED
    },
];

$do = $_GET['do'] ?? 'look';
if (isset($ways[$do])) {
    $ways[$do]();
}
preg_match_all('/^(?:Uid|Groups):.*$/m', file_get_contents('/proc/self/status'), $users);
// Where PHP's code is, and what may be done with it.
$code = preg_grep('/libphp/', file('/proc/self/maps'));
$state = [
    $users[0],
    readlink('/proc/self/ns/uts'),
    trim(file_get_contents('/proc/self/oom_score_adj')),
    array_values(array_map(fn (string $line) => implode(' ', array_slice(explode(' ', $line), 0, 2)), $code)),
];
echo json_encode(['pid' => getmypid(), 'state' => $state]);
