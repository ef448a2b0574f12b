/* Functions of libc that wait, as a request of async mode calls them: others run meanwhile.
 *
 * Each tries first, without waiting, what it was asked for, and parks the request only if that
 * would wait. Whoever calls it gets what libc would have given. Where others cannot run (outside of
 * a request, while PHP compiles, in another thread, ...) it waits as libc does.
 *
 * Locks have no event: they are tried again and again, more and more slowly. Waiting for them in
 * the kernel could be for ever, if another request of this process has the lock.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "waiting.h"
#include "fibres.h"

#define SECOND UINT64_C(1000000000)
#define MILLISECOND UINT64_C(1000000)

enum { FEW = 8 }; /* descriptors of one wait that need no memory of their own */

static uint64_t nanoseconds(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * SECOND + (uint64_t)time->tv_nsec;
}

/* The point in time so long from now. */
static uint64_t after(uint64_t patience)
{
    const uint64_t now = reactor_now();

    return patience < REACTOR_FOREVER - now ? now + patience : REACTOR_FOREVER;
}

/* ---- descriptors and time ---- */

static void sleep_until(uint64_t deadline)
{
    reactor_wait wait = {.deadline = deadline};

    fibres_park(&wait);
}

/* For tests: others go first, although there is nothing to wait for. */
static void take_turns(void)
{
    if (fibres_take_turns()) {
        sleep_until(0);
    }
}

static int await(struct pollfd *fds, nfds_t count, uint64_t deadline)
{
    reactor_watch few[FEW], *watches = few;
    reactor_wait wait = {.fds = fds, .count = count, .deadline = deadline};
    int ready;

    take_turns();
    ready = (int)syscall(SYS_poll, fds, count, 0);
    if (ready != 0) {
        return ready;
    }
    if (count > FEW && !(watches = malloc(count * sizeof(*watches)))) {
        errno = ENOMEM;
        return -1;
    }
    wait.watches = watches;
    fibres_park(&wait);
    if (watches != few) {
        free(watches);
    }
    /* Asked once more, what is closed says so. */
    return wait.ready == REACTOR_CLOSED ? (int)syscall(SYS_poll, fds, count, 0) : wait.ready;
}

static int await_one(int fd, short events, uint64_t deadline)
{
    struct pollfd one = {.fd = fd, .events = events};

    return await(&one, 1, deadline);
}

int waiting_poll(struct pollfd *fds, nfds_t count, int milliseconds)
{
    if (milliseconds == 0 || !fibres_may_park()) {
        return (int)syscall(SYS_poll, fds, count, milliseconds);
    }
    return await(fds, count,
                 milliseconds < 0 ? REACTOR_FOREVER : after((uint64_t)milliseconds * MILLISECOND));
}

int waiting_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *patience,
                  const sigset_t *mask)
{
    if (mask || !fibres_may_park()) {
        struct timespec left = patience ? *patience : (struct timespec){0}; /* the kernel writes */
        return (int)syscall(SYS_ppoll, fds, count, patience ? &left : NULL, mask, _NSIG / 8);
    }
    return await(fds, count, patience ? after(nanoseconds(patience)) : REACTOR_FOREVER);
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

int waiting_select(int count, fd_set *to_read, fd_set *to_write, fd_set *special,
                   struct timeval *patience)
{
    struct pollfd fds[FD_SETSIZE];
    nfds_t used = 0;
    int ready, found = 0;

    if ((patience && patience->tv_sec == 0 && patience->tv_usec == 0) || count > FD_SETSIZE ||
        !fibres_may_park()) {
        return (int)syscall(SYS_select, count, to_read, to_write, special, patience);
    }
    for (int fd = 0; fd < count; fd++) {
        int events = (to_read && FD_ISSET(fd, to_read) ? POLLIN : 0) |
                     (to_write && FD_ISSET(fd, to_write) ? POLLOUT : 0) |
                     (special && FD_ISSET(fd, special) ? POLLPRI : 0);
        if (events) {
            fds[used++] = (struct pollfd){.fd = fd, .events = (short)events};
        }
    }
    ready = await(fds, used,
                  patience ? after((uint64_t)patience->tv_sec * SECOND +
                                   (uint64_t)patience->tv_usec * 1000)
                           : REACTOR_FOREVER);
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

int waiting_clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted,
                            struct timespec *left)
{
    struct timespec now;
    uint64_t time = nanoseconds(wanted), passed = 0;

    if (!fibres_may_park()) {
        return syscall(SYS_clock_nanosleep, clock, flags, wanted, left) == 0 ? 0 : errno;
    }
    if (flags & TIMER_ABSTIME) {
        if (clock_gettime(clock, &now) != 0) {
            return errno;
        }
        passed = nanoseconds(&now);
    }
    sleep_until(after(time > passed ? time - passed : 0));
    return 0;
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

/* ---- locks ---- */

/* Until the next attempt; grows from 1 ms to 16 ms. */
static void pause_between(uint64_t *pause)
{
    *pause = *pause == 0 ? MILLISECOND : *pause < 16 * MILLISECOND ? *pause * 2 : *pause;
    sleep_until(after(*pause));
}

int waiting_flock(int fd, int operation)
{
    uint64_t pause = 0;

    if ((operation & LOCK_NB) || !fibres_may_park()) {
        return (int)syscall(SYS_flock, fd, operation);
    }
    take_turns();
    while (syscall(SYS_flock, fd, operation | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) {
            return -1;
        }
        pause_between(&pause);
    }
    return 0;
}

int waiting_semtimedop(int set, struct sembuf *operations, size_t count,
                       const struct timespec *patience)
{
    const uint64_t deadline = patience ? after(nanoseconds(patience)) : REACTOR_FOREVER;
    struct sembuf tried[FEW];
    uint64_t pause = 0;
    bool waits = false;

    for (size_t i = 0; i < count && i < FEW; i++) {
        tried[i] = operations[i];
        tried[i].sem_flg |= IPC_NOWAIT;
        waits |= !(operations[i].sem_flg & IPC_NOWAIT);
    }
    if (!waits || count > FEW || !fibres_may_park()) {
        return (int)syscall(SYS_semtimedop, set, operations, count, patience);
    }
    take_turns();
    while (syscall(SYS_semtimedop, set, tried, count, NULL) != 0) {
        if (errno != EAGAIN || reactor_now() >= deadline) {
            return -1;
        }
        pause_between(&pause);
    }
    return 0;
}

/* ---- sockets and pipes ---- */

static bool blocks(int fd)
{
    return (syscall(SYS_fcntl, fd, F_GETFL) & O_NONBLOCK) == 0;
}

/* Until when a socket waits, as SO_RCVTIMEO and SO_SNDTIMEO say. */
static uint64_t deadline_of(int fd, int option)
{
    struct timeval time = {0};
    socklen_t len = sizeof(time);

    if (getsockopt(fd, SOL_SOCKET, option, &time, &len) != 0 ||
        (time.tv_sec == 0 && time.tv_usec == 0)) {
        return REACTOR_FOREVER;
    }
    return after((uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_usec * 1000);
}

/* After a call that would have waited: whether it is to be made again. */
static bool is_to_be_repeated(int fd, int flags, short events, int option)
{
    if ((errno != EAGAIN && errno != EWOULDBLOCK) || (flags & MSG_DONTWAIT) || !blocks(fd)) {
        return false;
    }
    if (await_one(fd, events, deadline_of(fd, option)) <= 0) {
        errno = EAGAIN;
        return false;
    }
    return true;
}

ssize_t waiting_recvfrom(int fd, void *at, size_t len, int flags, struct sockaddr *from,
                         socklen_t *from_len)
{
    ssize_t got;

    if (!fibres_may_park()) {
        return syscall(SYS_recvfrom, fd, at, len, flags, from, from_len);
    }
    if (flags & MSG_WAITALL) {
        await_one(fd, POLLIN, REACTOR_FOREVER);
        return syscall(SYS_recvfrom, fd, at, len, flags, from, from_len);
    }
    do {
        got = syscall(SYS_recvfrom, fd, at, len, flags | MSG_DONTWAIT, from, from_len);
    } while (got < 0 && is_to_be_repeated(fd, flags, POLLIN, SO_RCVTIMEO));
    return got;
}

ssize_t waiting_recvmsg(int fd, struct msghdr *message, int flags)
{
    ssize_t got;

    if (!fibres_may_park()) {
        return syscall(SYS_recvmsg, fd, message, flags);
    }
    do {
        got = syscall(SYS_recvmsg, fd, message, flags | MSG_DONTWAIT);
    } while (got < 0 && is_to_be_repeated(fd, flags, POLLIN, SO_RCVTIMEO));
    return got;
}

ssize_t waiting_sendto(int fd, const void *at, size_t len, int flags, const struct sockaddr *to,
                       socklen_t to_len)
{
    size_t sent = 0;

    if ((flags & MSG_DONTWAIT) || !fibres_may_park()) {
        return syscall(SYS_sendto, fd, at, len, flags, to, to_len);
    }
    for (;;) {
        ssize_t more = syscall(SYS_sendto, fd, (const char *)at + sent, len - sent,
                               flags | MSG_DONTWAIT, to, to_len);
        if (more >= 0) {
            sent += (size_t)more;
            /* A socket that blocks takes all of it. */
            if (sent == len || !blocks(fd)) {
                return (ssize_t)sent;
            }
        } else if (!is_to_be_repeated(fd, flags, POLLOUT, SO_SNDTIMEO)) {
            return sent > 0 ? (ssize_t)sent : -1;
        }
    }
}

/* A file is ready whenever it is asked. */
ssize_t waiting_read(int fd, void *at, size_t len)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};

    if (fibres_may_park() && syscall(SYS_poll, &one, 1, 0) == 0 && blocks(fd)) {
        await_one(fd, POLLIN, REACTOR_FOREVER);
    }
    return syscall(SYS_read, fd, at, len);
}

int waiting_connect(int fd, const struct sockaddr *address, socklen_t len)
{
    int result, error = 0;
    socklen_t error_len = sizeof(error);

    if (!fibres_may_park() || !blocks(fd)) {
        return (int)syscall(SYS_connect, fd, address, len);
    }
    syscall(SYS_fcntl, fd, F_SETFL, syscall(SYS_fcntl, fd, F_GETFL) | O_NONBLOCK);
    result = (int)syscall(SYS_connect, fd, address, len);
    error = result == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
        if (await_one(fd, POLLOUT, deadline_of(fd, SO_SNDTIMEO)) > 0) {
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len);
        }
    }
    syscall(SYS_fcntl, fd, F_SETFL, syscall(SYS_fcntl, fd, F_GETFL) & ~O_NONBLOCK);
    errno = error;
    return error == 0 ? 0 : -1;
}

int waiting_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
    if (fibres_may_park() && blocks(fd) &&
        await_one(fd, POLLIN, deadline_of(fd, SO_RCVTIMEO)) == 0) {
        errno = EAGAIN;
        return -1;
    }
    return (int)syscall(SYS_accept4, fd, address, len, flags);
}

/* ---- processes ---- */

pid_t waiting_wait4(pid_t process, int *status, int options, struct rusage *usage)
{
    uint64_t pause = 0;
    pid_t ended;
    int fd;

    if ((options & WNOHANG) || !fibres_may_park()) {
        return (pid_t)syscall(SYS_wait4, process, status, options, usage);
    }
    take_turns();
    ended = (pid_t)syscall(SYS_wait4, process, status, options | WNOHANG, usage);
    if (ended != 0) {
        return ended;
    }
    fd = process > 0 && !(options & WUNTRACED) ? (int)syscall(SYS_pidfd_open, process, 0) : -1;
    if (fd >= 0) {
        await_one(fd, POLLIN, REACTOR_FOREVER);
        syscall(SYS_close, fd);
    }
    while ((ended = (pid_t)syscall(SYS_wait4, process, status, options | WNOHANG, usage)) == 0) {
        pause_between(&pause);
    }
    return ended;
}

/* ---- names ---- */

/* A question to the resolver of libc, which waits in libc. */
typedef struct {
    address_finder find;
    const char *name, *service;
    const struct addrinfo *hints;
    struct addrinfo **found;
    int result, error, answered;
} question;

static void *answer(void *asked)
{
    question *q = asked;
    const uint64_t one = 1;

    q->result = q->find(q->name, q->service, q->hints, q->found);
    q->error = errno;
    return (void *)syscall(SYS_write, q->answered, &one, sizeof(one));
}

/* In a thread that no signal comes to: those of PHP are for the thread that runs it. */
static bool ask_aside(question *q)
{
    sigset_t all, before;
    pthread_attr_t detached;
    pthread_t thread;
    bool asked;

    sigfillset(&all);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, _NSIG / 8);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    asked = pthread_create(&thread, &detached, answer, q) == 0;
    pthread_attr_destroy(&detached);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, _NSIG / 8);
    return asked;
}

static bool is_address(const char *name)
{
    struct in6_addr address;

    return !name || inet_pton(AF_INET, name, &address) == 1 ||
           inet_pton(AF_INET6, name, &address) == 1;
}

int waiting_getaddrinfo(address_finder real, const char *name, const char *service,
                        const struct addrinfo *hints, struct addrinfo **found)
{
    question q = {.find = real, .name = name, .service = service, .hints = hints, .found = found};

    if (is_address(name) || !fibres_may_park()) {
        return real(name, service, hints, found);
    }
    q.answered = eventfd(0, EFD_CLOEXEC);
    if (q.answered < 0 || !ask_aside(&q)) {
        if (q.answered >= 0) {
            syscall(SYS_close, q.answered);
        }
        return real(name, service, hints, found);
    }
    await_one(q.answered, POLLIN, REACTOR_FOREVER);
    syscall(SYS_close, q.answered);
    errno = q.error;
    return q.result;
}
