/* Functions of libc that wait. */
#ifndef TOKAMAK_WAITING_H
#define TOKAMAK_WAITING_H

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <resolv.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

/* In libc's place. */
int waiting_poll(struct pollfd *fds, nfds_t count, int milliseconds);
int waiting_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *patience,
                  const sigset_t *mask);
int waiting_select(int count, fd_set *to_read, fd_set *to_write, fd_set *special,
                   struct timeval *patience);
int waiting_pselect(int count, fd_set *to_read, fd_set *to_write, fd_set *special,
                    const struct timespec *patience, const sigset_t *mask);
int waiting_epoll(int epoll, struct epoll_event *events, int room, const struct timespec *patience,
                  const sigset_t *mask);
int waiting_epoll_ms(int epoll, struct epoll_event *events, int room, int milliseconds,
                     const sigset_t *mask);
int waiting_clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted,
                            struct timespec *left);
int waiting_nanosleep(const struct timespec *wanted, struct timespec *left);
int waiting_usleep(useconds_t wanted);
unsigned waiting_sleep(unsigned seconds);
int waiting_flock(int fd, int operation);
int waiting_fcntl_lock(int fd, int command, struct flock *lock);
int waiting_lockf(int fd, int command, off_t len);
/* A descriptor is about to be closed, and with it the locks of its file. */
void waiting_note_closed(int fd);
int waiting_semtimedop(int set, struct sembuf *operations, size_t count,
                       const struct timespec *patience);
ssize_t waiting_msgrcv(int queue, void *at, size_t len, long type, int flags);
int waiting_msgsnd(int queue, const void *at, size_t len, int flags);
int waiting_mutex_lock(pthread_mutex_t *mutex);
int waiting_open(const char *path, int flags, mode_t mode);
ssize_t waiting_read(int fd, void *at, size_t len);
ssize_t waiting_readv(int fd, const struct iovec *parts, int count);
ssize_t waiting_write(int fd, const void *at, size_t len);
ssize_t waiting_writev(int fd, const struct iovec *parts, int count);
ssize_t waiting_recvfrom(int fd, void *at, size_t len, int flags, struct sockaddr *from,
                         socklen_t *from_len);
ssize_t waiting_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t waiting_sendto(int fd, const void *at, size_t len, int flags, const struct sockaddr *to,
                       socklen_t to_len);
ssize_t waiting_sendmsg(int fd, const struct msghdr *message, int flags);
int waiting_connect(int fd, const struct sockaddr *address, socklen_t len);
int waiting_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags);
pid_t waiting_wait4(pid_t process, int *status, int options, struct rusage *usage);
int waiting_waitid(idtype_t kind, id_t id, siginfo_t *info, int options);
int waiting_sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *patience);
FILE *waiting_popen(const char *command, const char *mode);
int waiting_pclose(FILE *file);
int waiting_system(const char *command);
int waiting_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                        struct addrinfo **found);
int waiting_getnameinfo(const struct sockaddr *address, socklen_t len, char *host,
                        socklen_t host_len, char *service, socklen_t service_len, int flags);
struct hostent *waiting_gethostbyname2(const char *name, int family);
struct hostent *waiting_gethostbyaddr(const void *address, socklen_t len, int family);
int waiting_gethostbyname2_r(const char *name, int family, struct hostent *entry, char *text,
                             size_t text_len, struct hostent **found, int *error);
int waiting_gethostbyaddr_r(const void *address, socklen_t len, int family, struct hostent *entry,
                            char *text, size_t text_len, struct hostent **found, int *error);
int waiting_res_nsearch(res_state state, const char *name, int class, int type, unsigned char *at,
                        int len);
int waiting_res_nquery(res_state state, const char *name, int class, int type, unsigned char *at,
                       int len);
int waiting_res_search(const char *name, int class, int type, unsigned char *at, int len);
int waiting_res_query(const char *name, int class, int type, unsigned char *at, int len);

#endif
