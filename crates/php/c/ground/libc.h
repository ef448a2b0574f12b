/* The functions of libc and libphp themselves, past those of interpose.c; and those of libc that
 * its headers do not declare. */
#ifndef TOKAMAK_LIBC_H
#define TOKAMAK_LIBC_H

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The library's function of this name. It is looked up at the first call and not in a constructor:
 * constructors of other libraries may call before ours would run. */
#define LIBC(name)                                          \
    ({                                                      \
        static __typeof__(&name) found;                     \
        if (!found) {                                       \
            *(void **)&found = dlsym(RTLD_NEXT, #name);     \
        }                                                   \
        found;                                              \
    })

/* poll() and select() of the kernel, by the system calls that arm64 has, too. */
static inline int kernel_poll(struct pollfd *fds, nfds_t count, int milliseconds)
{
    struct timespec patience = {.tv_sec = milliseconds / 1000,
                                .tv_nsec = milliseconds % 1000 * 1000000l};

    return (int)syscall(SYS_ppoll, fds, count, milliseconds < 0 ? NULL : &patience, NULL, 0);
}
static inline int kernel_select(int count, fd_set *to_read, fd_set *to_write, fd_set *special,
                                struct timeval *patience)
{
    struct timespec left = {0};
    int ready;

    if (patience) {
        left.tv_sec = patience->tv_sec + patience->tv_usec / 1000000;
        left.tv_nsec = patience->tv_usec % 1000000 * 1000;
    }
    ready = (int)syscall(SYS_pselect6, count, to_read, to_write, special, patience ? &left : NULL,
                         NULL);
    if (patience) {
        *patience = (struct timeval){.tv_sec = left.tv_sec, .tv_usec = left.tv_nsec / 1000};
    }
    return ready;
}

/* What pthread_atfork() is in every library; libc's headers do not declare it. */
int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *);
/* The same functions, in libraries that were built with fortification. */
int __poll_chk(struct pollfd *fds, nfds_t count, int milliseconds, size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *patience,
                const sigset_t *mask, size_t size);
ssize_t __read_chk(int fd, void *at, size_t len, size_t room);
ssize_t __recv_chk(int fd, void *at, size_t len, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *at, size_t len, size_t room, int flags,
                       struct sockaddr *from, socklen_t *from_len);

#endif
