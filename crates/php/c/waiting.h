/* Functions of libc that wait. */
#ifndef TOKAMAK_WAITING_H
#define TOKAMAK_WAITING_H

#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

/* In libc's place. */
int waiting_poll(struct pollfd *fds, nfds_t count, int milliseconds);
int waiting_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *patience,
                  const sigset_t *mask);
int waiting_select(int count, fd_set *to_read, fd_set *to_write, fd_set *special,
                   struct timeval *patience);
int waiting_clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted,
                            struct timespec *left);
int waiting_nanosleep(const struct timespec *wanted, struct timespec *left);
int waiting_usleep(useconds_t wanted);
unsigned waiting_sleep(unsigned seconds);
int waiting_flock(int fd, int operation);
int waiting_semtimedop(int set, struct sembuf *operations, size_t count,
                       const struct timespec *patience);
ssize_t waiting_read(int fd, void *at, size_t len);
ssize_t waiting_recvfrom(int fd, void *at, size_t len, int flags, struct sockaddr *from,
                         socklen_t *from_len);
ssize_t waiting_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t waiting_sendto(int fd, const void *at, size_t len, int flags, const struct sockaddr *to,
                       socklen_t to_len);
int waiting_connect(int fd, const struct sockaddr *address, socklen_t len);
int waiting_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags);
pid_t waiting_wait4(pid_t process, int *status, int options, struct rusage *usage);
typedef int (*address_finder)(const char *name, const char *service, const struct addrinfo *hints,
                              struct addrinfo **found);
int waiting_getaddrinfo(address_finder real, const char *name, const char *service,
                        const struct addrinfo *hints, struct addrinfo **found);

#endif
