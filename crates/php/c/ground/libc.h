/* The functions of libc and libphp themselves, past those of interpose.c; and those of libc that
 * its headers do not declare. */
#ifndef TOKAMAK_LIBC_H
#define TOKAMAK_LIBC_H

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

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
