/* Sockets and pipes: libc's functions that read, write and connect, in async mode. */
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "waiting.h"
#include "waiting_for.h"

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
    return waiting_after((uint64_t)time.tv_sec * WAITING_SECOND + (uint64_t)time.tv_usec * 1000);
}

/* After a call that would have waited: whether it is to be made again. */
static bool is_to_be_repeated(int fd, int flags, short events, int option)
{
    if ((errno != EAGAIN && errno != EWOULDBLOCK) || (flags & MSG_DONTWAIT) || !blocks(fd)) {
        return false;
    }
    if (waiting_for_one(fd, events, deadline_of(fd, option)) <= 0) {
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
        waiting_for_one(fd, POLLIN, REACTOR_FOREVER);
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
        waiting_for_one(fd, POLLIN, REACTOR_FOREVER);
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
        if (waiting_for_one(fd, POLLOUT, deadline_of(fd, SO_SNDTIMEO)) > 0) {
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
        waiting_for_one(fd, POLLIN, deadline_of(fd, SO_RCVTIMEO)) == 0) {
        errno = EAGAIN;
        return -1;
    }
    return (int)syscall(SYS_accept4, fd, address, len, flags);
}
