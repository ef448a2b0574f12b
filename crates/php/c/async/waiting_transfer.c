/* Sockets and pipes: libc's functions that read, write and connect, in async mode.
 *
 * Sockets are tried by MSG_DONTWAIT, which leaves alone the flags that a descriptor shares with
 * other processes. Pipes have nothing like it: they are asked by poll() first, and written to by so
 * much at once as fits whenever poll() says so.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "async/fibers_parking.h"
#include "async/kinds.h"
#include "async/reactor.h"
#include "async/waiting.h"
#include "async/waiting_for.h"
#include "ground/libc.h"

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
    int ready;

    if ((errno != EAGAIN && errno != EWOULDBLOCK) || (flags & MSG_DONTWAIT) || !blocks(fd)) {
        return false;
    }
    if (events == POLLIN) {
        waiting_note_empty(fd);
    }
    ready = waiting_for_one(fd, events, deadline_of(fd, option), 0);
    if (ready == 0) {
        errno = EAGAIN;
    }
    return ready > 0;
}

/* For descriptors that cannot be tried: until poll() says so just before the call. Another request
 * that waited for the same may have been faster. False: the time is over, or the wait is ended. */
static bool await_at_once(int fd, short events, uint64_t deadline)
{
    struct pollfd one = {.fd = fd, .events = events};

    while (kernel_poll(&one, 1, 0) == 0) {
        int ready = waiting_for_one(fd, events, deadline, 0);
        if (ready <= 0) {
            errno = ready == 0 ? EAGAIN : errno;
            return false;
        }
    }
    return true;
}

/* ---- receiving ---- */

static bool is_stream(int fd)
{
    int type = 0;
    socklen_t len = sizeof(type);

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM;
}

/* As much as was asked for, or up to the end. */
static ssize_t receive_all(int fd, char *at, size_t len, int flags)
{
    size_t filled = 0;
    ssize_t got;

    do {
        got = syscall(SYS_recvfrom, fd, at + filled, len - filled,
                      (flags & ~MSG_WAITALL) | MSG_DONTWAIT, NULL, NULL);
        filled += got > 0 ? (size_t)got : 0;
    } while (got > 0 ? filled < len
                     : got < 0 && is_to_be_repeated(fd, flags, POLLIN, SO_RCVTIMEO));
    return filled > 0 ? (ssize_t)filled : got;
}

ssize_t waiting_recvfrom(int fd, void *at, size_t len, int flags, struct sockaddr *from,
                         socklen_t *from_len)
{
    ssize_t got;

    if (!fibers_may_park()) {
        return WAITING_HELD(syscall(SYS_recvfrom, fd, at, len, flags, from, from_len));
    }
    /* A driver that looks whether the server is still there before it waits for the answer. If it
     * is not, the wait says so. */
    if (waiting_has_just_sent(fd) && (flags & MSG_PEEK) && (flags & MSG_DONTWAIT)) {
        errno = EAGAIN;
        return -1;
    }
    if ((flags & MSG_WAITALL) && !(flags & (MSG_PEEK | MSG_DONTWAIT)) && is_stream(fd)) {
        return receive_all(fd, at, len, flags);
    }
    do {
        got = syscall(SYS_recvfrom, fd, at, len, flags | MSG_DONTWAIT, from, from_len);
    } while (got < 0 && is_to_be_repeated(fd, flags, POLLIN, SO_RCVTIMEO));
    return got;
}

ssize_t waiting_recvmsg(int fd, struct msghdr *message, int flags)
{
    ssize_t got;

    if (!fibers_may_park()) {
        return WAITING_HELD(syscall(SYS_recvmsg, fd, message, flags));
    }
    do {
        got = syscall(SYS_recvmsg, fd, message, flags | MSG_DONTWAIT);
    } while (got < 0 && is_to_be_repeated(fd, flags, POLLIN, SO_RCVTIMEO));
    return got;
}

/* False: there will be nothing to read, as errno says. */
static bool await_to_read(int fd)
{
    const descriptor_kind kind = kinds_of(fd);

    return (kind != KIND_OTHER && kind != KIND_EVENTS) || !blocks(fd) ||
           await_at_once(fd, POLLIN, REACTOR_FOREVER);
}

ssize_t waiting_read(int fd, void *at, size_t len)
{
    if (!fibers_may_park()) {
        return WAITING_HELD(syscall(SYS_read, fd, at, len));
    }
    if (len > 0 && kinds_of(fd) == KIND_SOCKET) {
        return waiting_recvfrom(fd, at, len, 0, NULL, NULL);
    }
    return await_to_read(fd) ? syscall(SYS_read, fd, at, len) : -1;
}

ssize_t waiting_readv(int fd, const struct iovec *parts, int count)
{
    if (!fibers_may_park()) {
        return WAITING_HELD(syscall(SYS_readv, fd, parts, count));
    }
    if (kinds_of(fd) == KIND_SOCKET) {
        struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
        return waiting_recvmsg(fd, &message, 0);
    }
    return await_to_read(fd) ? syscall(SYS_readv, fd, parts, count) : -1;
}

/* ---- sending ---- */

ssize_t waiting_sendto(int fd, const void *at, size_t len, int flags, const struct sockaddr *to,
                       socklen_t to_len)
{
    const bool may_park = fibers_may_park();
    size_t sent = 0;

    if ((flags & MSG_DONTWAIT) || !may_park) {
        const ssize_t some = WAITING_HELD(syscall(SYS_sendto, fd, at, len, flags, to, to_len));
        if (may_park && some > 0) {
            waiting_note_sent(fd);
        }
        return some;
    }
    for (;;) {
        ssize_t more = syscall(SYS_sendto, fd, (const char *)at + sent, len - sent,
                               flags | MSG_DONTWAIT, to, to_len);
        if (more >= 0) {
            sent += (size_t)more;
            /* A socket that blocks takes all of it. */
            if (sent == len || !blocks(fd)) {
                waiting_note_sent(fd);
                return (ssize_t)sent;
            }
        } else if (!is_to_be_repeated(fd, flags, POLLOUT, SO_SNDTIMEO)) {
            return sent > 0 ? (ssize_t)sent : -1;
        }
    }
}

static size_t size_of(const struct iovec *parts, size_t count)
{
    size_t size = 0;

    for (size_t i = 0; i < count; i++) {
        size += parts[i].iov_len;
    }
    return size;
}

/* What is left of a message; what came with it has gone with its first part. */
static ssize_t send_rest(int fd, const struct msghdr *message, int flags, size_t sent)
{
    size_t before = 0;

    for (size_t i = 0; i < message->msg_iovlen; i++) {
        const struct iovec *part = &message->msg_iov[i];
        size_t skipped = sent > before ? sent - before : 0;
        before += part->iov_len;
        if (skipped < part->iov_len) {
            ssize_t more = waiting_sendto(fd, (const char *)part->iov_base + skipped,
                                          part->iov_len - skipped, flags, NULL, 0);
            sent += more > 0 ? (size_t)more : 0;
            if (sent < before) {
                break;
            }
        }
    }
    return (ssize_t)sent;
}

ssize_t waiting_sendmsg(int fd, const struct msghdr *message, int flags)
{
    ssize_t sent;

    if ((flags & MSG_DONTWAIT) || !fibers_may_park()) {
        return WAITING_HELD(syscall(SYS_sendmsg, fd, message, flags));
    }
    do {
        sent = syscall(SYS_sendmsg, fd, message, flags | MSG_DONTWAIT);
    } while (sent < 0 && is_to_be_repeated(fd, flags, POLLOUT, SO_SNDTIMEO));
    if (sent < 0 || (size_t)sent == size_of(message->msg_iov, message->msg_iovlen) || !blocks(fd)) {
        return sent;
    }
    return send_rest(fd, message, flags, (size_t)sent);
}

/* A pipe has room for PIPE_BUF bytes whenever it can be written to. */
static ssize_t write_in_pieces(int fd, const char *at, size_t len)
{
    size_t written = 0;

    while (written < len) {
        size_t piece = len - written < PIPE_BUF ? len - written : PIPE_BUF;
        ssize_t more = await_at_once(fd, POLLOUT, REACTOR_FOREVER)
                           ? syscall(SYS_write, fd, at + written, piece)
                           : -1;
        if (more < 0) {
            return written > 0 ? (ssize_t)written : -1;
        }
        written += (size_t)more;
    }
    return (ssize_t)written;
}

ssize_t waiting_write(int fd, const void *at, size_t len)
{
    if (!fibers_may_park()) {
        return WAITING_HELD(syscall(SYS_write, fd, at, len));
    }
    switch (len > 0 ? kinds_of(fd) : KIND_FILE) {
    case KIND_SOCKET:
        return waiting_sendto(fd, at, len, 0, NULL, 0);
    case KIND_OTHER:
        return blocks(fd) ? write_in_pieces(fd, at, len) : syscall(SYS_write, fd, at, len);
    default:
        return syscall(SYS_write, fd, at, len);
    }
}

ssize_t waiting_writev(int fd, const struct iovec *parts, int count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    ssize_t written = 0;

    if (!fibers_may_park()) {
        return WAITING_HELD(syscall(SYS_writev, fd, parts, count));
    }
    if (kinds_of(fd) == KIND_SOCKET) {
        return waiting_sendmsg(fd, &message, 0);
    }
    if (kinds_of(fd) != KIND_OTHER || !blocks(fd)) {
        return syscall(SYS_writev, fd, parts, count);
    }
    for (int i = 0; i < count; i++) {
        ssize_t more = write_in_pieces(fd, parts[i].iov_base, parts[i].iov_len);
        if (more < 0) {
            return written > 0 ? written : -1;
        }
        written += more;
        if ((size_t)more < parts[i].iov_len) {
            break;
        }
    }
    return written;
}

/* ---- beginning ---- */

/* A socket of this machine whose listener has too many that it has not accepted: there is no event
 * for that. */
static int connect_again(int fd, const struct sockaddr *address, socklen_t len)
{
    const uint64_t deadline = deadline_of(fd, SO_SNDTIMEO);
    uint64_t pause = 0;

    while (syscall(SYS_connect, fd, address, len) != 0) {
        if (errno != EAGAIN || reactor_now() >= deadline) {
            return errno;
        }
        if (!waiting_pause(&pause, SHIM_AWAITS_LISTENER)) {
            return ECANCELED;
        }
    }
    return 0;
}

int waiting_connect(int fd, const struct sockaddr *address, socklen_t len)
{
    int error = 0;
    socklen_t error_len = sizeof(error);

    if (!fibers_may_park() || !blocks(fd)) {
        return WAITING_HELD((int)syscall(SYS_connect, fd, address, len));
    }
    syscall(SYS_fcntl, fd, F_SETFL, syscall(SYS_fcntl, fd, F_GETFL) | O_NONBLOCK);
    error = syscall(SYS_connect, fd, address, len) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
        int ready = waiting_for_one(fd, POLLOUT, deadline_of(fd, SO_SNDTIMEO), 0);
        if (ready > 0) {
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len);
        } else if (ready < 0) {
            error = errno;
        }
    } else if (error == EAGAIN && address->sa_family == AF_UNIX) {
        error = connect_again(fd, address, len);
    }
    syscall(SYS_fcntl, fd, F_SETFL, syscall(SYS_fcntl, fd, F_GETFL) & ~O_NONBLOCK);
    errno = error;
    return error == 0 ? 0 : -1;
}

int waiting_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
    if (!fibers_may_park()) {
        return WAITING_HELD((int)syscall(SYS_accept4, fd, address, len, flags));
    }
    if (blocks(fd) && !await_at_once(fd, POLLIN, deadline_of(fd, SO_RCVTIMEO))) {
        return -1;
    }
    return (int)syscall(SYS_accept4, fd, address, len, flags);
}

/* A named pipe, of which libc's open() would wait for the other end. Here the end to read is there
 * at once, and its first read waits. The end to write opens when there is a reader. */
static int open_pipe(const char *path, int flags, mode_t mode)
{
    uint64_t pause = 0;
    int fd;

    while ((fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_NONBLOCK, mode)) < 0) {
        if (errno != ENXIO) {
            return -1;
        }
        if (!waiting_pause(&pause, SHIM_AWAITS_PIPE)) {
            errno = ECANCELED;
            return -1;
        }
    }
    syscall(SYS_fcntl, fd, F_SETFL, flags & ~O_NONBLOCK);
    return fd;
}

int waiting_open(const char *path, int flags, mode_t mode)
{
    struct stat st;
    int fd;

    if ((flags & (O_NONBLOCK | O_PATH)) || !fibers_may_park() || stat(path, &st) != 0) {
        return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    }
    fd = S_ISFIFO(st.st_mode) ? open_pipe(path, flags, mode)
                              : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    kinds_note(fd, st.st_mode);
    return fd;
}
