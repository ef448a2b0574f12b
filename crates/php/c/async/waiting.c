/* Functions of libc that wait, as a request of async mode calls them: others run meanwhile.
 *
 * Each tries first, without waiting, what it was asked for, and parks the request only if that
 * would wait. The caller gets what libc would have given. Where others cannot run (outside of
 * a request, while PHP compiles, in another thread, ...) it waits as libc does.
 *
 * Here: descriptors and points in time. The waiting_*.c beside this file wait for other things, by
 * what waiting_for.h has for all of them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "async/waiting.h"
#include "async/fibers_parking.h"
#include "async/reactor.h"
#include "async/waiting_for.h"
#include "ground/libc.h"

enum { FEW = 8 }; /* descriptors of one wait that need no memory of their own */

/* Between two attempts. Much longer, a lock would lie idle; much shorter, those who wait for it
 * would keep the processor busy. */
#define LONGEST_PAUSE (16 * WAITING_MILLISECOND)

uint64_t waiting_nanoseconds(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * WAITING_SECOND + (uint64_t)time->tv_nsec;
}

uint64_t waiting_after(uint64_t patience)
{
    const uint64_t now = reactor_now();

    return patience < REACTOR_FOREVER - now ? now + patience : REACTOR_FOREVER;
}

/* ---- waits that hold all others ---- */

/* Shorter ones are not worth telling. */
#define SHORTEST_HELD WAITING_MILLISECOND

static uint32_t held;

uint64_t waiting_hold(void)
{
    return fibers_in_request() ? reactor_now() : 0;
}

void waiting_note_held(uint64_t since)
{
    if (since != 0 && reactor_now() - since >= SHORTEST_HELD) {
        held++;
    }
}

uint32_t shim_held(void)
{
    return held;
}

/* ---- descriptors and time ---- */

static bool wait_until(uint64_t deadline, uint8_t kind)
{
    reactor_wait wait = {.deadline = deadline, .kind = kind};

    return fibers_park(&wait);
}

bool waiting_until(uint64_t deadline)
{
    return wait_until(deadline, SHIM_SLEEPS);
}

void waiting_take_turns(void)
{
    if (fibers_take_turns()) {
        wait_until(0, SHIM_READY);
    }
}

/* Descriptors that have nothing to read as far as is known: a question was sent there and its
 * answer takes its time, or its state was looked at just before. They are not asked again before
 * they are waited for. */
static uint64_t empty[FD_SETSIZE / 64];

void waiting_note_empty(int fd)
{
    if (fd >= 0 && fd < FD_SETSIZE) {
        empty[fd / 64] |= UINT64_C(1) << fd % 64;
    }
}

/* The call of a function of PHP that has sent something, and done nothing else since. */
static struct {
    const zend_execute_data *call; /* only to compare */
    const zend_function *function; /* the next call may be in the same place */
    int fd;
} sent;

void waiting_note_sent(int fd)
{
    waiting_note_empty(fd);
    sent.call = EG(current_execute_data);
    sent.function = sent.call ? sent.call->func : NULL;
    sent.fd = fd;
    /* By FFI, a script calls this itself, and is to see what is there. */
    if (sent.function && (sent.function->common.fn_flags & ZEND_ACC_CALL_VIA_TRAMPOLINE)) {
        sent.function = NULL;
    }
}

bool waiting_has_just_sent(int fd)
{
    const zend_execute_data *call = EG(current_execute_data);
    const bool has =
        sent.function && sent.call == call && sent.function == call->func && sent.fd == fd;

    sent.function = NULL;
    return has;
}

static bool take_empty(struct pollfd *fd)
{
    const uint64_t bit = UINT64_C(1) << (unsigned)fd->fd % 64;

    if (fd->fd < 0 || fd->fd >= FD_SETSIZE || (fd->events & POLLOUT) ||
        !(empty[fd->fd / 64] & bit)) {
        return false;
    }
    empty[fd->fd / 64] &= ~bit;
    fd->revents = 0;
    return true;
}

/* As poll() without patience; but a wait for answers begins with waiting. */
static int ready_now(struct pollfd *fds, nfds_t count)
{
    nfds_t known = 0;

    sent.function = NULL;
    while (known < count && take_empty(&fds[known])) {
        known++;
    }
    return count > 0 && known == count ? 0 : kernel_poll(fds, count, 0);
}

/* Who has nothing ready now, mostly waits for the same next. */
static int look_once(struct pollfd *fds, nfds_t count)
{
    const int ready = kernel_poll(fds, count, 0);

    sent.function = NULL;
    for (nfds_t i = 0; i < count && ready == 0; i++) {
        waiting_note_empty(fds[i].fd);
    }
    return ready;
}

static int await(struct pollfd *fds, nfds_t count, uint64_t deadline, uint8_t kind)
{
    reactor_watch few[FEW], *watches = few;
    reactor_wait wait = {.fds = fds, .count = count, .deadline = deadline, .kind = kind};
    bool is_whole = true;
    int ready;

    if (count > FEW && !(watches = malloc(count * sizeof(*watches)))) {
        errno = ENOMEM;
        return -1;
    }
    wait.watches = watches;
    if (fibers_take_turns()) {
        /* In the wait for the same, so that it is known to be in use. */
        wait.deadline = 0;
        is_whole = fibers_park(&wait);
        wait.deadline = deadline;
    }
    ready = is_whole ? ready_now(fds, count) : -1;
    if (ready == 0) {
        is_whole = fibers_park(&wait);
        /* Asked once more, what is closed says so. */
        ready = wait.ready == REACTOR_CLOSED ? kernel_poll(fds, count, 0) : wait.ready;
    }
    if (watches != few) {
        free(watches);
    }
    if (!is_whole) {
        errno = ECANCELED;
        return -1;
    }
    return ready;
}

/* As poll(). Who waits for one connection has mostly asked it something: if that wait is broken
 * off, no other may take the answer, which comes late, for the one to what is asked next. So the
 * connection ends. */
static int await_answer(struct pollfd *fds, nfds_t count, uint64_t deadline, uint8_t kind)
{
    const int ready = await(fds, count, deadline, kind);
    int is_listening = 0;
    socklen_t len = sizeof(is_listening);

    if (ready < 0 && errno == ECANCELED && count == 1) {
        getsockopt(fds->fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len);
        if (!is_listening) {
            shutdown(fds->fd, SHUT_RDWR);
        }
        errno = ECANCELED;
    }
    return ready;
}

int waiting_for_one(int fd, short events, uint64_t deadline, uint8_t kind)
{
    struct pollfd one = {.fd = fd, .events = events};

    return await_answer(&one, 1, deadline, kind);
}

/* Until when, as poll() says it. */
static uint64_t after_milliseconds(int milliseconds)
{
    return milliseconds < 0 ? REACTOR_FOREVER
                            : waiting_after((uint64_t)milliseconds * WAITING_MILLISECOND);
}

/* Until when; without it for ever. */
static uint64_t after_time(const struct timespec *patience)
{
    return patience ? waiting_after(waiting_nanoseconds(patience)) : REACTOR_FOREVER;
}

int waiting_poll(struct pollfd *fds, nfds_t count, int milliseconds)
{
    if (!fibers_may_park()) {
        return WAITING_HELD(kernel_poll(fds, count, milliseconds));
    }
    return milliseconds == 0 ? look_once(fds, count)
                             : await_answer(fds, count, after_milliseconds(milliseconds), 0);
}

int waiting_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *patience,
                  const sigset_t *mask)
{
    if (mask || !fibers_may_park()) {
        struct timespec left = patience ? *patience : (struct timespec){0}; /* the kernel writes */
        return WAITING_HELD(
            (int)syscall(SYS_ppoll, fds, count, patience ? &left : NULL, mask, _NSIG / 8));
    }
    return await_answer(fds, count, after_time(patience), 0);
}

/* An epoll that a library has: it becomes readable when it has an event. */
int waiting_epoll(int epoll, struct epoll_event *events, int room, const struct timespec *patience,
                  const sigset_t *mask)
{
    uint64_t deadline;
    int count;

    if (mask || !fibers_may_park()) {
        return WAITING_HELD(
            (int)syscall(SYS_epoll_pwait2, epoll, events, room, patience, mask, _NSIG / 8));
    }
    deadline = after_time(patience);
    while ((count = (int)syscall(SYS_epoll_pwait, epoll, events, room, 0, NULL, 0)) == 0) {
        int ready = waiting_for_one(epoll, POLLIN, deadline, 0);
        if (ready <= 0) {
            return ready;
        }
    }
    return count;
}

int waiting_epoll_ms(int epoll, struct epoll_event *events, int room, int milliseconds,
                     const sigset_t *mask)
{
    const struct timespec patience = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};

    if (milliseconds == 0 || mask || !fibers_may_park()) {
        return WAITING_HELD(
            (int)syscall(SYS_epoll_pwait, epoll, events, room, milliseconds, mask, _NSIG / 8));
    }
    return waiting_epoll(epoll, events, room, milliseconds < 0 ? NULL : &patience, NULL);
}

enum { TO_READ = POLLIN | POLLHUP | POLLERR, TO_WRITE = POLLOUT | POLLERR, SPECIAL = POLLPRI };

/* Keeps the descriptor in the set if it has one of these events. */
static int keep(fd_set *set, const struct pollfd *fd, int events)
{
    if (!set || !FD_ISSET(fd->fd, set)) {
        return 0;
    }
    if (fd->revents & events) {
        return 1;
    }
    FD_CLR(fd->fd, set);
    return 0;
}

static int select_until(int count, fd_set *to_read, fd_set *to_write, fd_set *special,
                        uint64_t deadline)
{
    struct pollfd fds[FD_SETSIZE];
    nfds_t used = 0;
    int ready, found = 0;

    for (int fd = 0; fd < count; fd++) {
        int events = (to_read && FD_ISSET(fd, to_read) ? POLLIN : 0) |
                     (to_write && FD_ISSET(fd, to_write) ? POLLOUT : 0) |
                     (special && FD_ISSET(fd, special) ? POLLPRI : 0);
        if (events) {
            fds[used++] = (struct pollfd){.fd = fd, .events = (short)events};
        }
    }
    ready = await(fds, used, deadline, 0);
    if (ready < 0) {
        return ready;
    }
    for (nfds_t i = 0; i < used; i++) {
        if (fds[i].revents & POLLNVAL) {
            errno = EBADF;
            return -1;
        }
        found += keep(to_read, &fds[i], TO_READ) + keep(to_write, &fds[i], TO_WRITE) +
                 keep(special, &fds[i], SPECIAL);
    }
    return found;
}

/* ---- Net-SNMP ---- */

static bool is_of_snmp(void)
{
    const zend_execute_data *call = EG(current_execute_data);
    const zend_module_entry *module =
        call && call->func && call->func->type == ZEND_INTERNAL_FUNCTION
            ? call->func->internal_function.module
            : NULL;

    return module && strcmp(module->name, "snmp") == 0;
}

/* Net-SNMP has one list of sessions for the whole process: who waits for an answer waits for those
 * of all, reads them, and closes its own socket behind it. So one request waits at a time. Others
 * hear of an interruption when it has been answered, and look at the list anew: the closed socket
 * is not in it any more, and their own answer may have been read. */
static int select_in_turn(int count, fd_set *to_read, fd_set *to_write, fd_set *special,
                          uint64_t deadline)
{
    static bool is_taken;
    uint64_t pause = 0;
    int ready;

    if (is_taken) {
        while (is_taken) {
            if (!waiting_pause(&pause, SHIM_AWAITS_LOCK)) {
                errno = ECANCELED;
                return -1;
            }
        }
        errno = EINTR;
        return -1;
    }
    is_taken = true;
    ready = select_until(count, to_read, to_write, special, deadline);
    is_taken = false;
    return ready;
}

/* The kernel refuses others, at once. */
static bool is_time(const struct timespec *time)
{
    return time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < (long)WAITING_SECOND;
}

int waiting_select(int count, fd_set *to_read, fd_set *to_write, fd_set *special,
                   struct timeval *patience)
{
    uint64_t deadline;

    if ((patience && patience->tv_sec == 0 && patience->tv_usec == 0) || count > FD_SETSIZE ||
        (patience && (patience->tv_sec < 0 || patience->tv_usec < 0)) || !fibers_may_park()) {
        return WAITING_HELD(kernel_select(count, to_read, to_write, special, patience));
    }
    deadline = patience ? waiting_after((uint64_t)patience->tv_sec * WAITING_SECOND +
                                        (uint64_t)patience->tv_usec * 1000)
                        : REACTOR_FOREVER;
    return is_of_snmp() ? select_in_turn(count, to_read, to_write, special, deadline)
                        : select_until(count, to_read, to_write, special, deadline);
}

int waiting_pselect(int count, fd_set *to_read, fd_set *to_write, fd_set *special,
                    const struct timespec *patience, const sigset_t *mask)
{
    if (mask || count > FD_SETSIZE || (patience && !is_time(patience)) || !fibers_may_park()) {
        return WAITING_HELD(
            LIBC(pselect)(count, to_read, to_write, special, patience, mask));
    }
    return select_until(count, to_read, to_write, special, after_time(patience));
}

int waiting_clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted,
                            struct timespec *left)
{
    struct timespec now;
    uint64_t time = waiting_nanoseconds(wanted), passed = 0;

    if (!fibers_may_park() || !is_time(wanted)) {
        return WAITING_HELD(
            syscall(SYS_clock_nanosleep, clock, flags, wanted, left) == 0 ? 0 : errno);
    }
    if (flags & TIMER_ABSTIME) {
        if (clock_gettime(clock, &now) != 0) {
            return errno;
        }
        passed = waiting_nanoseconds(&now);
    }
    return waiting_until(waiting_after(time > passed ? time - passed : 0)) ? 0 : errno;
}

int waiting_nanosleep(const struct timespec *wanted, struct timespec *left)
{
    int error = waiting_clock_nanosleep(CLOCK_MONOTONIC, 0, wanted, left);

    if (error != 0) {
        errno = error;
        return -1;
    }
    return 0;
}

int waiting_usleep(useconds_t wanted)
{
    struct timespec time = {wanted / 1000000, (long)(wanted % 1000000) * 1000};

    return waiting_nanosleep(&time, NULL);
}

/* What is left after a signal, in whole seconds. */
unsigned waiting_sleep(unsigned seconds)
{
    struct timespec time = {(time_t)seconds, 0}, left = {0};

    return waiting_nanosleep(&time, &left) == 0 ? 0 : (unsigned)left.tv_sec + (left.tv_nsec > 0);
}

uint64_t waiting_next_attempt(uint64_t *pause)
{
    const uint64_t longer = *pause == 0 ? WAITING_MILLISECOND : *pause * 2;

    *pause = longer < LONGEST_PAUSE ? longer : LONGEST_PAUSE;
    return waiting_after(*pause);
}

bool waiting_pause(uint64_t *pause, uint8_t kind)
{
    return wait_until(waiting_next_attempt(pause), kind);
}
