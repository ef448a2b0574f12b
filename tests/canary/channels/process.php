<?php
// What the kernel and the C library keep for the process.

/** Functions of the C library that PHP has no name for. */
function libc(): FFI
{
    static $libc;
    return $libc ??= FFI::cdef('
        unsigned alarm(unsigned seconds);
        int getitimer(int which, long *value);
        long signal(int number, long handler);
        int sigprocmask(int how, const unsigned long *set, unsigned long *before);
        int setenv(const char *name, const char *value, int overwrite);
        int open(const char *path, int flags);
        int close(int descriptor);
        void *mmap(void *at, size_t length, int protection, int flags, int descriptor, long offset);
        int pthread_create(unsigned long *thread, void *attributes, int (*start)(void), void *argument);
        int pause(void);
        int fesetround(int direction);
        int prctl(int option, const char *name);
        int personality(unsigned long persona);
        int fork(void);
        int usleep(unsigned microseconds);
        long syscall(long number, ...);
        int sigaltstack(const unsigned long *set, unsigned long *before);
        int raise(int number);
        void _exit(int status);
    ');
}

/** A channel past the C library, by calls of the kernel as they are numbered on this machine. */
function past_libc(Closure $pollute, Closure $probe, string $after_c = RESET, string ...$others): Channel
{
    return new Channel(...[
        'pollute' => $pollute,
        'probe' => $probe,
        'fpm' => STAYS,
        'classic' => $after_c,
        'worker' => STAYS,
        'sealed' => $after_c,
        'needs' => 'ffi',
        'exists' => php_uname('m') === 'x86_64',
        ...$others,
    ]);
}

/** A call of the kernel. */
function kernel(int $number, mixed ...$arguments): int
{
    return libc()->syscall($number, ...$arguments);
}

/** What the kernel says of a number of this process, for a call that writes it. */
function told_by_kernel(int $number, int $what): int
{
    $told = libc()->new('int');
    kernel($number, $what, FFI::addr($told));
    return $told->cdata;
}

/** One line of the kernel's view of this process. */
function process_status(string $key): string
{
    preg_match("/^$key:\s*(.*)$/m", file_get_contents('/proc/self/status'), $found);
    return $found[1];
}

/** The states of the processes that this one has started and not yet waited for. */
function children(): string
{
    $states = '';
    foreach (glob('/proc/[0-9]*/stat') as $path) {
        // "pid (name) state parent …"
        $fields = explode(' ', substr((string) strrchr((string) @file_get_contents($path), ')'), 2));
        $states .= ($fields[1] ?? null) === (string) getmypid() ? $fields[0] : '';
    }
    return $states;
}

/** What a program says that was started by this process and has changed it from outside. */
function from_outside(string $command): string
{
    return (string) shell_exec(str_replace('PID', (string) getmypid(), $command) . ' 2>&1');
}

/** Whether one can be taken away. */
function has_processors(): bool
{
    return trim(file_get_contents('/sys/devices/system/cpu/online')) !== '0';
}

/** A third, rounded as the process does it now; the compiler does not know the numbers. */
function a_third(): string
{
    return bin2hex(pack('E', random_int(1, 1) / random_int(3, 3)));
}

const WINDOW_SIGNAL = 28; // SIGWINCH: nothing else here uses it, and by default it does nothing

return [
    'chdir()' => new Channel(
        pollute: function () { chdir('/'); },
        probe: fn () => getcwd(),
    ),
    'umask()' => new Channel(
        pollute: function () { umask(0077); },
        probe: fn () => umask(),
    ),
    'place of temporary files, by putenv()' => new Channel(
        pollute: function () { putenv('TMPDIR=/polluted'); sys_get_temp_dir(); },
        probe: fn () => sys_get_temp_dir(),
    ),
    'putenv()' => new Channel(
        pollute: function () { putenv('POLLUTED=yes'); },
        probe: fn () => getenv('POLLUTED'),
    ),
    'setenv() of the C library' => new Channel(
        pollute: function () { libc()->setenv('POLLUTED_IN_C', 'yes', 1); },
        probe: fn () => getenv('POLLUTED_IN_C', true),
        fpm: STAYS,
        worker: STAYS,
        needs: 'ffi',
    ),
    'proc_nice()' => new Channel(
        pollute: function () { proc_nice(1); },
        probe: fn () => explode(' ', file_get_contents('/proc/self/stat'))[18],
        fpm: STAYS,
        classic: REPLACED,
        worker: STAYS,
        sealed: REPLACED,
    ),
    'posix_setrlimit()' => new Channel(
        pollute: function () {
            $limits = posix_getrlimit();
            posix_setrlimit(POSIX_RLIMIT_NOFILE, $limits['soft openfiles'] - 1, $limits['hard openfiles']);
        },
        probe: fn () => posix_getrlimit()['soft openfiles'],
        fpm: STAYS,
        classic: REPLACED,
        worker: STAYS,
        sealed: REPLACED,
        needs: 'posix',
    ),
    'alarm, pending' => new Channel(
        pollute: function () { libc()->alarm(1000); },
        probe: function () {
            $value = libc()->new('long[4]');
            libc()->getitimer(0, $value);
            return $value[2] > 0;
        },
        fpm: STAYS,
        worker: STAYS,
        needs: 'ffi',
    ),
    'signal, ignored' => new Channel(
        pollute: function () { libc()->signal(WINDOW_SIGNAL, 1); },
        probe: fn () => process_status('SigIgn'),
        fpm: STAYS,
        worker: STAYS,
        needs: 'ffi',
    ),
    'signal, blocked' => new Channel(
        pollute: function () {
            $set = libc()->new('unsigned long[16]');
            $set[0] = 1 << WINDOW_SIGNAL - 1;
            libc()->sigprocmask(0, $set, null);
        },
        probe: fn () => process_status('SigBlk'),
        fpm: STAYS,
        worker: STAYS,
        needs: 'ffi',
    ),
    'descriptor, open in a library' => new Channel(
        pollute: function () { libc()->open(__FILE__, 0); },
        probe: fn () => descriptors(),
        fpm: STAYS,
        classic: REPLACED,
        worker: STAYS,
        needs: 'ffi',
    ),
    'memory mapping' => new Channel(
        pollute: function () {
            $descriptor = libc()->open(__DIR__ . '/../mapped', 0);
            libc()->mmap(null, 4096, 1, 2, $descriptor, 0);
            libc()->close($descriptor);
        },
        probe: fn () => str_contains(file_get_contents('/proc/self/maps'), realpath(__DIR__ . '/../mapped')),
        fpm: STAYS,
        classic: REPLACED,
        worker: STAYS,
        needs: 'ffi',
    ),
    'System V memory, attached' => new Channel(
        pollute: function () {
            touch(note('memory'));
            Kept::$things['attached'] = shm_attach(ftok(note('memory'), 'p'), 10_000);
            shm_remove(Kept::$things['attached']); // when nobody is attached any more
        },
        probe: fn () => str_contains(file_get_contents('/proc/self/maps'), '/SYSV'),
        worker: STAYS,
        needs: 'sysvshm',
    ),
    'child process, ended' => new Channel(
        pollute: function () {
            Kept::$things['child'] = proc_open(['true'], [], $pipes);
            while (children() !== 'Z') {
                usleep(1000);
            }
        },
        probe: fn () => children(),
        worker: STAYS,
    ),
    'resource limit, set by a program' => new Channel(
        pollute: function () { from_outside('prlimit --pid PID --sigpending=100'); },
        probe: fn () => preg_grep('/^Max pending signals/', file('/proc/self/limits')),
        fpm: STAYS,
        classic: REPLACED,
        worker: STAYS,
        sealed: REPLACED,
    ),
    'priority, set by a program' => new Channel(
        // One more than it is: these tests may run with a priority of their own.
        pollute: function () { from_outside('renice -n $(($(ps -o ni= -p PID) + 1)) -p PID'); },
        probe: fn () => explode(' ', file_get_contents('/proc/self/stat'))[18],
        fpm: STAYS,
        classic: REPLACED,
        worker: STAYS,
        sealed: REPLACED,
    ),
    'scheduling, set by a program' => new Channel(
        pollute: function () { from_outside('chrt --batch --pid 0 PID'); },
        probe: fn () => explode(' ', file_get_contents('/proc/self/stat'))[40],
        fpm: STAYS,
        classic: REPLACED,
        worker: STAYS,
        sealed: REPLACED,
    ),
    'order of input and output, set by a program' => new Channel(
        pollute: function () { from_outside('ionice -c 3 -p PID'); },
        probe: fn () => from_outside('ionice -p PID'),
        fpm: STAYS,
        classic: REPLACED,
        worker: STAYS,
        sealed: REPLACED,
    ),
    'processors, set by a program' => new Channel(
        pollute: function () { from_outside('taskset -p 1 PID'); },
        probe: fn () => process_status('Cpus_allowed'),
        fpm: STAYS,
        classic: REPLACED,
        worker: STAYS,
        sealed: REPLACED,
        needs: has_processors() ? null : 'a second processor',
    ),
    'standard error, not blocking' => new Channel(
        pollute: function () { stream_set_blocking(fopen('php://stderr', 'w'), false); },
        probe: fn () => octdec(substr(file('/proc/self/fdinfo/2')[1], 7)) & 04000,
        fpm: STAYS,
        worker: STAYS,
    ),
    'standard error, its flags set by a program' => new Channel(
        pollute: function () {
            // F_GETFL, F_SETFL, O_APPEND
            shell_exec('python3 -c "from fcntl import fcntl; fcntl(2, 4, fcntl(2, 3) | 0o2000)"');
        },
        probe: fn () => octdec(substr(file('/proc/self/fdinfo/2')[1], 7)) & 02000,
        fpm: STAYS,
        worker: STAYS,
    ),
    'rounding of numbers' => new Channel(
        pollute: function () { libc()->fesetround(0x800); }, // FE_UPWARD
        probe: fn () => a_third(),
        fpm: STAYS,
        worker: STAYS,
        needs: 'ffi',
    ),
    'name of the process' => new Channel(
        pollute: function () { libc()->prctl(15, 'polluted'); }, // PR_SET_NAME
        probe: fn () => process_status('Name'),
        fpm: STAYS,
        classic: REPLACED,
        worker: STAYS,
        sealed: REPLACED,
        needs: 'ffi',
    ),
    'execution domain' => new Channel(
        pollute: function () { libc()->personality(0x0040000); }, // ADDR_NO_RANDOMIZE
        probe: fn () => libc()->personality(0xffffffff),
        fpm: STAYS,
        classic: REPLACED,
        worker: STAYS,
        sealed: REPLACED,
        needs: 'ffi',
    ),
    'child process, left running' => new Channel(
        pollute: function () {
            if (libc()->fork() === 0) {
                libc()->usleep(1_000_000);
                libc()->_exit(0);
            }
        },
        probe: fn () => strlen(children()),
        fpm: STAYS,
        classic: REPLACED,
        worker: STAYS,
        sealed: REPLACED,
        needs: 'ffi',
    ),
    'thread' => new Channel(
        pollute: function () {
            $thread = libc()->new('unsigned long');
            libc()->pthread_create(FFI::addr($thread), null, libc()->pause, null);
        },
        probe: fn () => process_status('Threads'),
        fpm: STAYS,
        classic: REPLACED,
        worker: STAYS,
        sealed: REPLACED,
        needs: 'ffi',
    ),
    'umask, past the C library' => past_libc(
        fn () => kernel(95, 0o77),
        fn () => process_status('Umask'),
        fpm: RESET, // since an earlier request called PHP's umask(): it puts back what that found
    ),
    'directory, past the C library' => past_libc(
        fn () => kernel(80, '/usr'),
        fn () => readlink('/proc/self/cwd'),
        fpm: RESET,
    ),
    'signal, blocked past the C library' => past_libc(
        function () {
            $set = libc()->new('unsigned long[1]');
            $set[0] = 1 << 23 - 1; // SIGURG
            kernel(14, 0, FFI::addr($set[0]), null, 8);
        },
        fn () => process_status('SigBlk'),
    ),
    'signal, waiting' => past_libc(
        function () {
            $set = libc()->new('unsigned long[1]');
            $set[0] = 1 << WINDOW_SIGNAL - 1;
            kernel(14, 0, FFI::addr($set[0]), null, 8);
            libc()->raise(WINDOW_SIGNAL);
        },
        fn () => process_status('SigPnd'),
        REPLACED,
    ),
    'stack of signals' => past_libc(
        function () {
            static $stack;
            $stack = libc()->new('char[65536]', false);
            $set = libc()->new('unsigned long[3]');
            $set[0] = libc()->cast('unsigned long', FFI::addr($stack))->cdata;
            $set[2] = 65536;
            libc()->sigaltstack($set, null);
        },
        function () {
            $before = libc()->new('unsigned long[3]');
            libc()->sigaltstack(null, $before);
            return $before[2];
        },
    ),
    'timer, past the C library' => past_libc(
        function () {
            $timer = libc()->new('int');
            kernel(222, 0, null, FFI::addr($timer));
        },
        // Those that send SIGALRM, as one does for which nothing is said: no others of the process.
        fn () => substr_count(file_get_contents('/proc/self/timers'), 'signal: 14/'),
        REPLACED,
    ),
    'interval timer, past the C library' => past_libc(
        function () {
            $interval = libc()->new('long[4]');
            $interval[2] = 1000;
            kernel(38, 1, FFI::addr($interval[0]), null);
        },
        function () {
            $now = libc()->new('long[4]');
            libc()->getitimer(1, $now);
            return $now[2] > 0;
        },
    ),
    'standard input, another' => past_libc(
        function () {
            $other = libc()->open('/dev/zero', 0);
            kernel(33, $other, 0);
            libc()->close($other);
        },
        fn () => readlink('/proc/self/fd/0'),
        REPLACED,
    ),
    'keyring of the session' => past_libc(
        fn () => kernel(250, 1, null),
        fn () => kernel(250, 0, -3, 0),
        REPLACED,
    ),
    'adopting processes' => past_libc(
        fn () => kernel(157, 36, 1),
        fn () => told_by_kernel(157, 37),
        REPLACED,
    ),
    'signal at the end of the parent' => past_libc(
        fn () => kernel(157, 1, 10),
        fn () => told_by_kernel(157, 2),
        REPLACED,
    ),
    'new rights, never again' => past_libc(
        fn () => kernel(157, 38, 1, 0, 0, 0),
        fn () => process_status('NoNewPrivs'),
        REPLACED,
    ),
];
