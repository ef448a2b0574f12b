/* System calls that PHP makes at every request though nothing has changed: we stand in front of
 * libc and answer from memory. Per request these are two setitimer, one rt_sigaction and one
 * rt_sigprocmask (time limit), two fcntl (opcache's usage lock), getcwd and two chdir. Here too:
 * which sockets PHP opens, for the check that a database has not hung up on an idle worker.
 *
 * How: interpose.c stands in front of libc and calls the functions below. What they do not
 * recognise they pass on unchanged.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "process/syscall_cache.h"
#include "ground/critical_section.h"
#include "ground/libc.h"
#include "ground/state.h"
#include "image.h"
#include "process/process_state.h"

/* ---- time limit ---------------------------------------------------------------------------------
 *
 * PHP arms ITIMER_PROF (CPU time) at each request, twice. We keep one timer that ticks once for
 * each second of CPU time and count. So a limit of N seconds strikes after N to N+1 seconds of CPU
 * time. A process that waits does not tick at all.
 */
static int has_ticks; /* the timer exists in this process */

static void on_tick(int number)
{
    int kept = errno;
    (void)number;
    if (image_is_rolling_back()) {
        return; /* nothing runs that could take too long */
    }
    if (critical_section_is_on()) {
        return; /* PHP's handler would jump, now or later; a tick more or less is nothing */
    }
    shim.mode->tick();
    if (serving->seconds_left > 0 && --serving->seconds_left == 0) {
        raise(SIGPROF); /* PHP's own handler does the rest */
    }
    errno = kept;
}

int syscall_cache_setitimer(int which, const struct itimerval *wanted, struct itimerval *before)
{
    if (which != ITIMER_PROF || !has_ticks || !wanted) {
        process_state_note_timer();
        return (int)syscall(SYS_setitimer, which, wanted, before);
    }
    if (before) {
        memset(before, 0, sizeof(*before));
        before->it_value.tv_sec = serving->seconds_left;
    }
    serving->seconds_left = wanted->it_value.tv_sec <= 0        ? 0
                            : wanted->it_value.tv_sec < INT_MAX ? (int)wanted->it_value.tv_sec + 1
                                                                : INT_MAX;
    return 0;
}

/* ---- signal handlers and mask -------------------------------------------------------------------
 *
 * Setting what is set already is left out. Every way to change a handler in this process leads
 * through syscall_cache_sigaction() and syscall_cache_signal(), so the shadow is exact. A handler
 * that resets itself (SA_RESETHAND) is not remembered: the kernel changes it behind our back.
 */
static struct {
    int known;
    struct sigaction action;
} shadow[65];

static int is_same_action(const struct sigaction *a, const struct sigaction *b)
{
    return a->sa_sigaction == b->sa_sigaction && a->sa_flags == b->sa_flags &&
           memcmp(&a->sa_mask, &b->sa_mask, sizeof(a->sa_mask)) == 0;
}

int syscall_cache_sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    int result;

    if (number > 0 && number < 65 && shadow[number].known &&
        (!action || is_same_action(action, &shadow[number].action))) {
        if (before) {
            *before = shadow[number].action;
        }
        return 0;
    }
    result = LIBC(sigaction)(number, action, before);
    if (action) {
        process_state_note_signal(number);
    }
    if (result == 0 && action && number > 0 && number < 65) {
        shadow[number].known = !(action->sa_flags & (int)SA_RESETHAND);
        shadow[number].action = *action;
    }
    return result;
}

sighandler_t syscall_cache_signal(int number, sighandler_t handler)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;

    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, number);
    return sigaction(number, &action, &before) == 0 ? before.sa_handler : SIG_ERR;
}

/* The mask of this thread as far as we have seen it being set: bit n - 1 is signal n. Inside a
 * signal handler the kernel blocks more; unblocking it there early is what gets lost, and nothing
 * relies on that. */
static _Thread_local uint64_t blocked;
static _Thread_local int blocked_known;

/* The part of a set that the kernel has; libc's type has room for more. */
static uint64_t signals_of(const sigset_t *set)
{
    uint64_t signals;

    memcpy(&signals, set, sizeof(signals));
    return signals;
}

int syscall_cache_change_mask(mask_changer real, int how, const sigset_t *set, sigset_t *before)
{
    const uint64_t wanted = set ? signals_of(set) : 0;
    sigset_t was;
    int result;

    if (how == SIG_UNBLOCK && set && !before && blocked_known && !(wanted & blocked)) {
        return 0;
    }
    result = real(how, set, &was);
    if (set) {
        process_state_note_mask();
    }
    if (result == 0) {
        if (before) {
            *before = was;
        }
        blocked_known = 1;
        blocked = signals_of(&was);
        if (set) {
            blocked = how == SIG_SETMASK ? wanted
                      : how == SIG_BLOCK ? blocked | wanted
                                         : blocked & ~wanted;
        }
    }
    return result;
}

/* ---- opcache's locks ----------------------------------------------------------------------------
 *
 * opcache locks byte 1 of its lock file (shared) while a request uses the cache and byte 0
 * (exclusive) while a process writes to it. A restart of the cache waits until byte 1 is free, and
 * after opcache.force_restart_timeout seconds it kills the processes that still hold it.
 *
 * We keep byte 1 when the request ends, and give it back for good
 *  - when this process wants byte 0 while its request does not use the cache: that is what it does
 *    first in every request that begins while a restart is pending, so a pending restart waits one
 *    request longer at most;
 *  - when the worker has been idle for two seconds.
 */
static int lock_file = -1;
static int holds_use, wants_use, holds_write;

int syscall_cache_is_lock_file(int fd)
{
    char link[32], target[128];
    ssize_t len;

    if (lock_file != -1) {
        return fd == lock_file;
    }
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, target, sizeof(target) - 1);
    if (len <= 0) {
        return 0;
    }
    target[len] = 0;
    if (!strstr(target, "opcache_lock") && !strstr(target, "/.ZendSem.")) {
        return 0;
    }
    lock_file = fd;
    return 1;
}

static int unlock(descriptor_call real, off_t from, off_t len)
{
    struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = from, .l_len = len};
    return real(lock_file, F_SETLK, &all);
}

static int opcache_lock(descriptor_call real, int command, struct flock *lock)
{
    int result;
    int all = lock->l_start == 0 && lock->l_len == 0;
    int use = lock->l_start == 1 && lock->l_len == 1;

    if (command == F_SETLK && use && lock->l_type == F_RDLCK) {
        if (wants_use) {
            return 0; /* every sealed request; writing nothing leaves the page as it is */
        }
        result = holds_use ? 0 : real(lock_file, command, lock);
        wants_use = holds_use = result == 0;
        return result;
    }
    if (command == F_SETLK && lock->l_type == F_UNLCK && (all || use)) {
        wants_use = shim.sealed; /* an image uses the cache for as long as it lives */
        if (all && holds_write) {
            holds_write = 0;
            return unlock(real, 0, 1);
        }
        return 0;
    }
    if (command == F_SETLKW && lock->l_type == F_WRLCK) {
        if (holds_use && !wants_use) {
            holds_use = 0;
            unlock(real, 1, 1);
        }
        holds_write = 1;
    } else if (command == F_SETLK && lock->l_type == F_UNLCK && lock->l_start == 0) {
        holds_write = 0;
    }
    return real(lock_file, command, lock);
}

/* Byte 0, byte 1 or all: cheap to see, so that a database's locks on its own files cost nothing
 * more. */
static int is_of_opcache(const struct flock *lock)
{
    return lock->l_whence == SEEK_SET && (lock->l_start == 0 || lock->l_start == 1) &&
           (lock->l_len == 1 || (lock->l_start == 0 && lock->l_len == 0));
}

bool syscall_cache_answers_fcntl(descriptor_call real, int fd, int command, void *argument,
                                 int *result)
{
    if ((command != F_SETLK && command != F_SETLKW) || !has_ticks || !is_of_opcache(argument) ||
        !syscall_cache_is_lock_file(fd)) {
        return false;
    }
    *result = opcache_lock(real, command, argument);
    return true;
}

int syscall_cache_uses_opcache(void)
{
    return wants_use;
}

static time_t idle_since; /* 0: not idle */

/* Before each sleep; one may be short, for a wake-up that was somebody else's. */
void syscall_cache_idle(void)
{
    struct timespec now;

    if (!holds_use || wants_use || shim.sealed) {
        return;
    }
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (idle_since == 0) {
        idle_since = now.tv_sec;
    } else if (now.tv_sec - idle_since >= 2) {
        holds_use = 0;
        unlock(LIBC(fcntl), 1, 1);
    }
}

/* ---- current directory --------------------------------------------------------------------------
 *
 * PHP goes to the script's directory and back at each request. We stay there, and go anew when the
 * directory is another, when anybody went elsewhere, or after a second: behind the same name there
 * may be another directory by then (a deployment that swaps a symlink).
 */
static char directory[PATH_MAX];
static size_t directory_len;
static time_t directory_at;
static int moved = 1;

void syscall_cache_note_directory(void)
{
    moved = 1;
    process_state_note_directory();
}

int syscall_cache_directory_moved(void)
{
    return moved;
}

void syscall_cache_return_to(const char *path)
{
    if (syscall(SYS_chdir, path) == 0) {
        moved = 0;
    }
}

void syscall_cache_enter_directory_of(const char *file, size_t len)
{
    struct timespec now;

    if (idle_since != 0) {
        idle_since = 0;
    }
    while (len > 1 && file[len - 1] != '/') {
        len--;
    }
    if (len == 0 || len >= sizeof(directory)) {
        return;
    }
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    /* An image is outdated by a deployment, so its directory needs no second look. */
    if (!moved && len == directory_len && (now.tv_sec == directory_at || shim.sealed) &&
        memcmp(file, directory, len) == 0) {
        return;
    }
    memcpy(directory, file, len);
    directory[len] = 0;
    directory_len = len;
    directory_at = now.tv_sec;
    process_state_note_directory();
    moved = syscall(SYS_chdir, directory) != 0;
}

/* ---- sockets ------------------------------------------------------------------------------------
 *
 * Every stream socket that the process opens is remembered until it is closed. One that was closed
 * by libc itself, behind our back, is found out when its number is asked about.
 */
enum { WATCHED = 256 };
static int watched[WATCHED];
static bool kept[WATCHED]; /* the boot, or an earlier request, has left it open */
static int watched_count;
static int lost; /* such sockets that were closed after their peers had closed them */
static unsigned long watched_bits[1024 / (8 * sizeof(long))];

static int is_watched(int fd)
{
    return fd >= 0 && fd < 1024 &&
           (watched_bits[fd / (8 * sizeof(long))] >> (fd % (8 * sizeof(long)))) & 1;
}

static void forget(int fd)
{
    for (int i = 0; i < watched_count; i++) {
        if (watched[i] == fd) {
            watched[i] = watched[--watched_count];
            kept[i] = kept[watched_count];
            watched_bits[fd / (8 * sizeof(long))] &= ~(1ul << (fd % (8 * sizeof(long))));
            return;
        }
    }
}

int syscall_cache_socket(int domain, int type, int protocol)
{
    int fd = (int)syscall(SYS_socket, domain, type, protocol);

    if (fd >= 0 && fd < 1024 && has_ticks && (type & 0xf) == SOCK_STREAM &&
        watched_count < WATCHED && !is_watched(fd)) {
        kept[watched_count] = serving->stage == STAGE_BOOT && !shim.script.loops;
        watched[watched_count++] = fd;
        watched_bits[fd / (8 * sizeof(long))] |= 1ul << (fd % (8 * sizeof(long)));
    }
    return fd;
}

/* A library that finds its connection closed by the peer closes it, too, and goes on to fail in
 * each later request. Nobody sees that at the descriptors that are left. */
static void note_lost(int fd)
{
    struct pollfd asked = {.fd = fd, .events = POLLRDHUP};

    for (int i = 0; i < watched_count; i++) {
        if (watched[i] == fd && kept[i] && syscall(SYS_poll, &asked, 1, 0) > 0 &&
            (asked.revents & (POLLRDHUP | POLLHUP | POLLERR))) {
            lost++;
        }
    }
}

void syscall_cache_note_closed(int fd)
{
    if (is_watched(fd)) {
        if (shim.script.loops) {
            note_lost(fd);
        }
        forget(fd);
    }
}

int syscall_cache_stale_sockets(void)
{
    static struct pollfd asked[WATCHED];
    int count = watched_count, stale = 0;

    if (lost || count <= 0 || count > WATCHED) {
        return lost;
    }
    for (int i = 0; i < count; i++) {
        /* In async mode others are in the middle of their requests. */
        kept[i] |= shim.config->concurrency == 0;
        asked[i] = (struct pollfd){.fd = watched[i], .events = POLLRDHUP};
    }
    if (poll(asked, (nfds_t)count, 0) <= 0) {
        return 0;
    }
    for (int i = 0; i < count; i++) {
        struct sockaddr_storage peer;
        socklen_t len = sizeof(peer);
        struct stat st;
        if (asked[i].revents == 0) {
            continue;
        }
        /* The number may belong to a file by now, or to a socket that never was connected. */
        if ((asked[i].revents & POLLNVAL) || fstat(asked[i].fd, &st) != 0 ||
            !S_ISSOCK(st.st_mode)) {
            forget(asked[i].fd);
        } else if ((asked[i].revents & POLLRDHUP) ||
                   getpeername(asked[i].fd, (void *)&peer, &len) == 0) {
            stale++;
        }
    }
    return stale;
}

/* ---- a worker begins
 * ----------------------------------------------------------------------------------------- */

static void on_nothing(int number)
{
    (void)number;
}

/* Signals that reach a whole process group (Ctrl-C, a closed terminal) are the supervisor's
 * business: the worker is told to leave through the board. */
static const int not_ours[] = {SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM};

/* A child of a script has no supervisor. What the script has made of a signal stays. */
static void be_ended_by_signals(void)
{
    struct sigaction now;

    for (size_t i = 0; i < sizeof(not_ours) / sizeof(*not_ours); i++) {
        if (LIBC(sigaction)(not_ours[i], NULL, &now) == 0 && now.sa_handler == on_nothing) {
            LIBC(signal)(not_ours[i], SIG_DFL);
        }
    }
}

static sigset_t before_fork; /* what was blocked */

/* A signal may reach the child before it has made up its mind. */
static void hold_signals(void)
{
    sigset_t held;

    sigemptyset(&held);
    for (size_t i = 0; i < sizeof(not_ours) / sizeof(*not_ours); i++) {
        sigaddset(&held, not_ours[i]);
    }
    LIBC(sigprocmask)(SIG_BLOCK, &held, &before_fork);
}

static void let_signals_go(void)
{
    LIBC(sigprocmask)(SIG_SETMASK, &before_fork, NULL);
}

/* A script forked (pcntl_fork). Timers stay with the parent, and so does everything in shared
 * memory. */
static void on_fork_in_child(void)
{
    has_ticks = 0;
    holds_use = wants_use = holds_write = 0;
    shim.is_copy = 1;
    if (serving->stage == STAGE_REQUEST || serving->stage == STAGE_LATE) {
        be_ended_by_signals();
    }
    let_signals_go();
}

/* What a fork brings along: handlers. */
static void install_handlers(void)
{
    /* A handler and not SIG_IGN, because programs that PHP starts inherit what is ignored. */
    struct sigaction action = {.sa_flags = SA_RESTART};

    sigemptyset(&action.sa_mask);
    action.sa_handler = on_nothing;
    for (size_t i = 0; i < sizeof(not_ours) / sizeof(*not_ours); i++) {
        sigaction(not_ours[i], &action, NULL);
    }
    action.sa_handler = on_tick;
    sigaction(SIGRTMIN + 6, &action, NULL);
    pthread_atfork(hold_signals, let_signals_go, on_fork_in_child);
}

/* What a fork does not bring along: the timer, and a mask without the zygote's blocked signals. */
int syscall_cache_begin_worker(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 6};
    struct itimerspec each = {{1, 0}, {1, 0}};
    timer_t timer;
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* Without a timer of our own PHP keeps its. */
    has_ticks = timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer) == 0 &&
                timer_settime(timer, 0, &each, NULL) == 0;
    return has_ticks ? 0 : -1;
}

void syscall_cache_worker_begins(void)
{
    install_handlers();
    moved = 1;
    /* Locks are not inherited: nothing is held. */
    holds_use = wants_use = holds_write = 0;
    syscall_cache_begin_worker();
}

/* The image of a worker: as if syscall_cache_begin_worker() had run, because what it notes
 * afterwards is rolled back. opcache's lock stays the zygote's, for as long as it lives: a restart
 * of the cache would take the image's code away. */
void syscall_cache_seal(void)
{
    struct flock use = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1};

    install_handlers();
    for (int fd = 0; fd < 64 && lock_file == -1; fd++) {
        syscall_cache_is_lock_file(fd);
    }
    if (lock_file != -1 && !holds_use && LIBC(fcntl)(lock_file, F_SETLK, &use) == 0) {
        holds_use = wants_use = 1;
    }
    has_ticks = 1;
    blocked_known = 1;
    blocked = 0;
}
