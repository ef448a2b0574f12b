/* Every function of libc that this program stands in front of, and some of libphp, in one table.
 *
 * The dynamic linker resolves the references of libphp and of all extensions to the definitions of
 * the program, because build.rs exports the names of this table. A row notifies the parts of the
 * shim that want to know, and then makes the call: by libc, by the kernel directly (that is safe in
 * a signal handler, and before the program is set up), or by a function of the part that answers in
 * libc's place.
 *
 * Calls that libc makes inside itself do not come through here: the close() in fclose(), for
 * example.
 */
#include <dirent.h>
#include <fcntl.h>
#include <libintl.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

#include "async/fatal_errors.h"
#include "async/fibers.h"
#include "async/in_use.h"
#include "async/own_connections.h"
#include "async/peers.h"
#include "async/waiting.h"
#include "classic/classic.h"
#include "ground/libc.h"
#include "ground/locale.h"
#include "ground/out_of_memory.h"
#include "ground/state.h"
#include "ground/text_domains.h"
#include "image.h"
#include "process/descriptors.h"
#include "process/directory.h"
#include "process/opcache.h"
#include "process/process_state.h"
#include "process/semaphores.h"
#include "process/signals.h"
#include "process/sockets.h"
#include "process/time_limit.h"
#include "sealed/connections.h"
#include "sealed/dependencies.h"
#include "sealed/randomness.h"
#include "ext/standard/php_filestat.h"
#include "top/observers.h"

/* Not sanitized: the address sanitizer calls some of them before it has made its own memory. */
#define INTERPOSE(type, name, parameters, note, call)                                 \
    __attribute__((no_sanitize("address", "undefined"))) type name parameters         \
    {                                                                                 \
        note;                                                                         \
        return (type)(call);                                                          \
    }

#define NOTHING (void)0

/* What stands for the three dots: up to four words, of which the called function reads those it
 * has. */
#define READ_REST(last)                             \
    unsigned long rest[4];                          \
    va_list list;                                   \
    va_start(list, last);                           \
    for (int i = 0; i < 4; i++) {                   \
        rest[i] = va_arg(list, unsigned long);      \
    }                                               \
    va_end(list)

/* clang-format off */

/* ---- loading extensions -------------------------------------------------------------------------
 *
 * Some distributions build PHP so that it loads extensions with RTLD_DEEPBIND. They would then find
 * libc's functions before ours: opcache would lock at each request, and a database's library open
 * sockets that we do not know of. The flag protects extensions inside a web server with libraries
 * of its own; this program has none. */
INTERPOSE(void *, dlopen, (const char *file, int mode),
          NOTHING, LIBC(dlopen)(file, mode & ~RTLD_DEEPBIND))

/* ---- timers and signals ---- */
INTERPOSE(int, setitimer,
          (__itimer_which_t which, const struct itimerval *wanted, struct itimerval *before),
          NOTHING, time_limit_setitimer(which, wanted, before))
INTERPOSE(unsigned, alarm, (unsigned seconds),
          process_state_note_timer(), LIBC(alarm)(seconds))
INTERPOSE(int, timer_create, (clockid_t clock, struct sigevent *event, timer_t *timer),
          process_state_note_irreversible("a request made a timer"),
          LIBC(timer_create)(clock, event, timer))
INTERPOSE(int, sigaction, (int number, const struct sigaction *action, struct sigaction *before),
          NOTHING, signals_action(number, action, before))
INTERPOSE(sighandler_t, signal, (int number, sighandler_t handler),
          NOTHING, signals_handle(number, handler))
INTERPOSE(int, sigprocmask, (int how, const sigset_t *set, sigset_t *before),
          NOTHING, signals_change_mask(LIBC(sigprocmask), how, set, before))
INTERPOSE(int, pthread_sigmask, (int how, const sigset_t *set, sigset_t *before),
          NOTHING, signals_change_mask(LIBC(pthread_sigmask), how, set, before))

/* ---- random numbers ---- */
INTERPOSE(int, rand, (void),
          randomness_seed(), LIBC(rand)())
INTERPOSE(long, random, (void),
          randomness_seed(), LIBC(random)())
INTERPOSE(double, drand48, (void),
          randomness_seed(), LIBC(drand48)())
INTERPOSE(long, lrand48, (void),
          randomness_seed(), LIBC(lrand48)())
INTERPOSE(long, mrand48, (void),
          randomness_seed(), LIBC(mrand48)())
INTERPOSE(void, srand, (unsigned seed),
          randomness_note_seeded(), LIBC(srand)(seed))
INTERPOSE(void, srandom, (unsigned seed),
          randomness_note_seeded(), LIBC(srandom)(seed))
INTERPOSE(void, srand48, (long seed),
          randomness_note_seeded(), LIBC(srand48)(seed))

/* ---- descriptors ---- */
INTERPOSE(int, open, (const char *path, int flags, ...),
          READ_REST(flags); process_state_note_opened(path, flags),
          dependencies_opened(path, flags, waiting_open(path, flags, (mode_t)rest[0])))
INTERPOSE(int, open64, (const char *path, int flags, ...),
          READ_REST(flags); process_state_note_opened(path, flags),
          dependencies_opened(path, flags,
                              waiting_open(path, flags | O_LARGEFILE, (mode_t)rest[0])))
INTERPOSE(int, fcntl, (int fd, int command, ...),
          READ_REST(command), observers_fcntl(LIBC(fcntl), fd, command, (void *)rest[0]))
INTERPOSE(int, fcntl64, (int fd, int command, ...),
          READ_REST(command), observers_fcntl(LIBC(fcntl64), fd, command, (void *)rest[0]))
INTERPOSE(int, close, (int fd),
          observers_closed(fd), syscall(SYS_close, fd))
INTERPOSE(int, dup, (int fd),
          observers_copied(fd), syscall(SYS_dup, fd))
INTERPOSE(int, dup2, (int from, int to),
          observers_replaced(from, to), LIBC(dup2)(from, to))
INTERPOSE(int, dup3, (int from, int to, int flags),
          observers_replaced(from, to), LIBC(dup3)(from, to, flags))

INTERPOSE(int, ioctl, (int fd, unsigned long request, ...),
          READ_REST(request); descriptors_note_ioctl(fd, request),
          syscall(SYS_ioctl, fd, request, rest[0]))
INTERPOSE(int, flock, (int fd, int operation),
          descriptors_note_flock(fd), waiting_flock(fd, operation))
INTERPOSE(int, lockf, (int fd, int command, off_t len),
          descriptors_note_posix_lock(fd), waiting_lockf(fd, command, len))
INTERPOSE(int, lockf64, (int fd, int command, off64_t len),
          descriptors_note_posix_lock(fd), waiting_lockf(fd, command, len))
/* These close inside libc. */
INTERPOSE(int, fclose, (FILE *file),
          observers_closed_inside(fileno(file)), LIBC(fclose)(file))
INTERPOSE(int, pclose, (FILE *file),
          observers_closed_inside(fileno(file)), waiting_pclose(file))
INTERPOSE(FILE *, freopen, (const char *path, const char *mode, FILE *file),
          observers_closed_inside(fileno(file)), LIBC(freopen)(path, mode, file))
INTERPOSE(int, closedir, (DIR *directory),
          observers_closed_inside(dirfd(directory)), LIBC(closedir)(directory))
INTERPOSE(int, close_range, (unsigned first, unsigned last, int flags),
          observers_range(first, last, flags), syscall(SYS_close_range, first, last, flags))
INTERPOSE(void, closefrom, (int first),
          observers_closed_range(first > 0 ? (unsigned)first : 0, ~0u), LIBC(closefrom)(first))
INTERPOSE(void, closelog, (void),
          descriptors_note_unseen_closing(), LIBC(closelog)())

/* ---- paths ---- */
INTERPOSE(int, stat, (const char *path, struct stat *found),
          NOTHING, dependencies_looked(path, found, LIBC(stat)(path, found)))
INTERPOSE(int, lstat, (const char *path, struct stat *found),
          NOTHING, dependencies_looked_at_name(path, found, LIBC(lstat)(path, found)))
INTERPOSE(ssize_t, readlink, (const char *path, char *at, size_t len),
          NOTHING, dependencies_followed(path, LIBC(readlink)(path, at, len)))
INTERPOSE(int, access, (const char *path, int mode),
          NOTHING, dependencies_sought(path, LIBC(access)(path, mode)))
INTERPOSE(DIR *, opendir, (const char *path),
          NOTHING, dependencies_listed(path, LIBC(opendir)(path)))
INTERPOSE(int, glob,
          (const char *pattern, int flags, int (*failed)(const char *, int), glob_t *found),
          NOTHING, dependencies_glob(pattern, flags, failed, found))
INTERPOSE(int, rename, (const char *from, const char *to),
          NOTHING,
          dependencies_wrote_beside(from, dependencies_wrote_beside(to, LIBC(rename)(from, to))))
INTERPOSE(int, unlink, (const char *path),
          NOTHING, dependencies_wrote_beside(path, LIBC(unlink)(path)))
INTERPOSE(int, utime, (const char *path, const struct utimbuf *times),
          NOTHING, dependencies_touched(path, LIBC(utime)(path, times)))
INTERPOSE(int, chmod, (const char *path, mode_t mode),
          NOTHING, dependencies_touched(path, LIBC(chmod)(path, mode)))
INTERPOSE(int, chown, (const char *path, uid_t owner, gid_t group),
          NOTHING, dependencies_touched(path, LIBC(chown)(path, owner, group)))
INTERPOSE(int, symlink, (const char *to, const char *path),
          NOTHING, dependencies_wrote_beside(path, LIBC(symlink)(to, path)))
INTERPOSE(int, link, (const char *to, const char *path),
          NOTHING, dependencies_wrote_beside(path, LIBC(link)(to, path)))
INTERPOSE(int, rmdir, (const char *path),
          NOTHING, dependencies_wrote_beside(path, LIBC(rmdir)(path)))
INTERPOSE(int, mkdir, (const char *path, mode_t mode),
          NOTHING, dependencies_wrote_beside(path, LIBC(mkdir)(path, mode)))

/* ---- PHP: libphp's own calls come through here, too ---- */
INTERPOSE(void, php_stat, (zend_string *path, int what, zval *answer),
          dependencies_queried(path, what), LIBC(php_stat)(path, what, answer))
INTERPOSE(int, _php_stream_free, (php_stream *stream, int options),
          own_connections_note_freed(stream, options), LIBC(_php_stream_free)(stream, options))
INTERPOSE(void, zend_objects_store_mark_destructed, (zend_objects_store *objects),
          NOTHING, fatal_errors_mark_destructed(objects))

/* ---- semaphores and messages ---- */
INTERPOSE(int, semop, (int set, struct sembuf *operations, size_t count),
          NOTHING, semaphores_operated(set, operations, count,
                                       waiting_semtimedop(set, operations, count, NULL)))
INTERPOSE(int, semtimedop,
          (int set, struct sembuf *operations, size_t count, const struct timespec *patience),
          NOTHING, semaphores_operated(set, operations, count,
                                       waiting_semtimedop(set, operations, count, patience)))

INTERPOSE(ssize_t, msgrcv, (int queue, void *at, size_t len, long type, int flags),
          NOTHING, waiting_msgrcv(queue, at, len, type, flags))
INTERPOSE(int, msgsnd, (int queue, const void *at, size_t len, int flags),
          NOTHING, waiting_msgsnd(queue, at, len, flags))

/* ---- sockets, and what passes through them ---- */
INTERPOSE(int, socket, (int domain, int type, int protocol),
          NOTHING, sockets_open(domain, type, protocol))
INTERPOSE(ssize_t, send, (int fd, const void *at, size_t len, int flags),
          connections_note_sent(fd, at, len), waiting_sendto(fd, at, len, flags, NULL, 0))
INTERPOSE(ssize_t, write, (int fd, const void *at, size_t len),
          connections_note_sent(fd, at, len), waiting_write(fd, at, len))
INTERPOSE(ssize_t, sendto,
          (int fd, const void *at, size_t len, int flags, const struct sockaddr *to,
           socklen_t to_len),
          connections_note_used(fd), waiting_sendto(fd, at, len, flags, to, to_len))
INTERPOSE(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags),
          connections_note_used(fd), waiting_sendmsg(fd, message, flags))
INTERPOSE(ssize_t, writev, (int fd, const struct iovec *parts, int count),
          connections_note_used(fd), waiting_writev(fd, parts, count))
INTERPOSE(ssize_t, recv, (int fd, void *at, size_t len, int flags),
          NOTHING,
          connections_received(fd, at, len, waiting_recvfrom(fd, at, len, flags, NULL, NULL)))
INTERPOSE(ssize_t, __recv_chk, (int fd, void *at, size_t len, size_t room, int flags),
          NOTHING, len > room ? LIBC(__recv_chk)(fd, at, len, room, flags)
                              : connections_received(
                                    fd, at, len, waiting_recvfrom(fd, at, len, flags, NULL, NULL)))
INTERPOSE(ssize_t, recvfrom,
          (int fd, void *at, size_t len, int flags, struct sockaddr *from, socklen_t *from_len),
          NOTHING, waiting_recvfrom(fd, at, len, flags, from, from_len))
INTERPOSE(ssize_t, __recvfrom_chk,
          (int fd, void *at, size_t len, size_t room, int flags, struct sockaddr *from,
           socklen_t *from_len),
          NOTHING, len > room ? LIBC(__recvfrom_chk)(fd, at, len, room, flags, from, from_len)
                              : waiting_recvfrom(fd, at, len, flags, from, from_len))
INTERPOSE(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags),
          NOTHING, waiting_recvmsg(fd, message, flags))
INTERPOSE(ssize_t, read, (int fd, void *at, size_t len),
          NOTHING, waiting_read(fd, at, len))
INTERPOSE(ssize_t, __read_chk, (int fd, void *at, size_t len, size_t room),
          NOTHING, len > room ? LIBC(__read_chk)(fd, at, len, room) : waiting_read(fd, at, len))
INTERPOSE(ssize_t, readv, (int fd, const struct iovec *parts, int count),
          NOTHING, waiting_readv(fd, parts, count))
INTERPOSE(int, connect, (int fd, const struct sockaddr *address, socklen_t len),
          in_use_note_connect(fd); peers_note(fd, address, len),
          waiting_connect(fd, address, len))
INTERPOSE(int, accept, (int fd, struct sockaddr *address, socklen_t *len),
          NOTHING, waiting_accept4(fd, address, len, 0))
INTERPOSE(int, accept4, (int fd, struct sockaddr *address, socklen_t *len, int flags),
          NOTHING, waiting_accept4(fd, address, len, flags))
INTERPOSE(int, getaddrinfo,
          (const char *name, const char *service, const struct addrinfo *hints,
           struct addrinfo **found),
          NOTHING, waiting_getaddrinfo(name, service, hints, found))
INTERPOSE(int, getnameinfo,
          (const struct sockaddr *address, socklen_t len, char *host, socklen_t host_len,
           char *service, socklen_t service_len, int flags),
          NOTHING,
          waiting_getnameinfo(address, len, host, host_len, service, service_len, flags))
INTERPOSE(struct hostent *, gethostbyname, (const char *name),
          NOTHING, waiting_gethostbyname2(name, AF_INET))
INTERPOSE(struct hostent *, gethostbyname2, (const char *name, int family),
          NOTHING, waiting_gethostbyname2(name, family))
INTERPOSE(struct hostent *, gethostbyaddr, (const void *address, socklen_t len, int family),
          NOTHING, waiting_gethostbyaddr(address, len, family))
INTERPOSE(int, gethostbyname_r,
          (const char *name, struct hostent *entry, char *text, size_t text_len,
           struct hostent **found, int *error),
          NOTHING, waiting_gethostbyname2_r(name, AF_INET, entry, text, text_len, found, error))
INTERPOSE(int, gethostbyname2_r,
          (const char *name, int family, struct hostent *entry, char *text, size_t text_len,
           struct hostent **found, int *error),
          NOTHING, waiting_gethostbyname2_r(name, family, entry, text, text_len, found, error))
INTERPOSE(int, gethostbyaddr_r,
          (const void *address, socklen_t len, int family, struct hostent *entry, char *text,
           size_t text_len, struct hostent **found, int *error),
          NOTHING,
          waiting_gethostbyaddr_r(address, len, family, entry, text, text_len, found, error))
INTERPOSE(int, res_nsearch,
          (res_state state, const char *name, int class, int type, unsigned char *at, int len),
          NOTHING, waiting_res_nsearch(state, name, class, type, at, len))
INTERPOSE(int, res_nquery,
          (res_state state, const char *name, int class, int type, unsigned char *at, int len),
          NOTHING, waiting_res_nquery(state, name, class, type, at, len))
INTERPOSE(int, res_search, (const char *name, int class, int type, unsigned char *at, int len),
          NOTHING, waiting_res_search(name, class, type, at, len))
INTERPOSE(int, res_query, (const char *name, int class, int type, unsigned char *at, int len),
          NOTHING, waiting_res_query(name, class, type, at, len))

/* ---- what waits for others, or for time ---- */
INTERPOSE(int, poll, (struct pollfd *fds, nfds_t count, int milliseconds),
          NOTHING, waiting_poll(fds, count, milliseconds))
INTERPOSE(int, __poll_chk, (struct pollfd *fds, nfds_t count, int milliseconds, size_t size),
          NOTHING, count > size / sizeof(*fds) ? LIBC(__poll_chk)(fds, count, milliseconds, size)
                                               : waiting_poll(fds, count, milliseconds))
INTERPOSE(int, ppoll,
          (struct pollfd *fds, nfds_t count, const struct timespec *patience, const sigset_t *mask),
          NOTHING, waiting_ppoll(fds, count, patience, mask))
INTERPOSE(int, __ppoll_chk,
          (struct pollfd *fds, nfds_t count, const struct timespec *patience, const sigset_t *mask,
           size_t size),
          NOTHING, count > size / sizeof(*fds) ? LIBC(__ppoll_chk)(fds, count, patience, mask, size)
                                               : waiting_ppoll(fds, count, patience, mask))
INTERPOSE(int, epoll_wait, (int epoll, struct epoll_event *events, int room, int milliseconds),
          NOTHING, waiting_epoll_ms(epoll, events, room, milliseconds, NULL))
INTERPOSE(int, epoll_pwait,
          (int epoll, struct epoll_event *events, int room, int milliseconds, const sigset_t *mask),
          NOTHING, waiting_epoll_ms(epoll, events, room, milliseconds, mask))
INTERPOSE(int, epoll_pwait2,
          (int epoll, struct epoll_event *events, int room, const struct timespec *patience,
           const sigset_t *mask),
          NOTHING, waiting_epoll(epoll, events, room, patience, mask))
INTERPOSE(int, select,
          (int count, fd_set *to_read, fd_set *to_write, fd_set *special, struct timeval *patience),
          NOTHING, waiting_select(count, to_read, to_write, special, patience))
INTERPOSE(int, pselect,
          (int count, fd_set *to_read, fd_set *to_write, fd_set *special,
           const struct timespec *patience, const sigset_t *mask),
          NOTHING, waiting_pselect(count, to_read, to_write, special, patience, mask))
INTERPOSE(int, clock_nanosleep,
          (clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left),
          NOTHING, waiting_clock_nanosleep(clock, flags, wanted, left))
INTERPOSE(int, nanosleep, (const struct timespec *wanted, struct timespec *left),
          NOTHING, waiting_nanosleep(wanted, left))
INTERPOSE(int, usleep, (useconds_t wanted),
          NOTHING, waiting_usleep(wanted))
INTERPOSE(unsigned, sleep, (unsigned seconds),
          NOTHING, waiting_sleep(seconds))
INTERPOSE(pid_t, waitpid, (pid_t process, int *status, int options),
          NOTHING, waiting_wait4(process, status, options, NULL))
INTERPOSE(pid_t, wait, (int *status),
          NOTHING, waiting_wait4(-1, status, 0, NULL))
INTERPOSE(pid_t, wait4, (pid_t process, int *status, int options, struct rusage *usage),
          NOTHING, waiting_wait4(process, status, options, usage))
INTERPOSE(pid_t, wait3, (int *status, int options, struct rusage *usage),
          NOTHING, waiting_wait4(-1, status, options, usage))
INTERPOSE(int, waitid, (idtype_t kind, id_t id, siginfo_t *info, int options),
          NOTHING, waiting_waitid(kind, id, info, options))
INTERPOSE(int, sigtimedwait,
          (const sigset_t *set, siginfo_t *info, const struct timespec *patience),
          NOTHING, waiting_sigtimedwait(set, info, patience))
INTERPOSE(int, sigwaitinfo, (const sigset_t *set, siginfo_t *info),
          NOTHING, waiting_sigtimedwait(set, info, NULL))
INTERPOSE(int, pthread_mutex_lock, (pthread_mutex_t *mutex),
          NOTHING, waiting_mutex_lock(mutex))

/* ---- the process ---- */
INTERPOSE(pid_t, getpid, (void),
          NOTHING, connections_getpid())
INTERPOSE(int, chdir, (const char *path),
          directory_note_change(), syscall(SYS_chdir, path))
INTERPOSE(int, fchdir, (int fd),
          directory_note_change(), syscall(SYS_fchdir, fd))
INTERPOSE(mode_t, umask, (mode_t mask),
          process_state_note_umask(), syscall(SYS_umask, mask))
INTERPOSE(int, pthread_create,
          (pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument),
          process_state_note_thread(), LIBC(pthread_create)(thread, attributes, start, argument))
INTERPOSE(int, __register_atfork,
          (void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library),
          randomness_note_fork_handler(prepare, child, library),
          LIBC(__register_atfork)(prepare, parent, child, library))
INTERPOSE(int, setrlimit, (__rlimit_resource_t kind, const struct rlimit *limit),
          process_state_note_irreversible("a request changed a resource limit"),
          LIBC(setrlimit)(kind, limit))
INTERPOSE(int, setrlimit64, (__rlimit_resource_t kind, const struct rlimit64 *limit),
          process_state_note_irreversible("a request changed a resource limit"),
          LIBC(setrlimit64)(kind, limit))
INTERPOSE(int, setuid, (uid_t id),
          process_state_note_irreversible("a request changed the user"), LIBC(setuid)(id))
INTERPOSE(int, seteuid, (uid_t id),
          process_state_note_irreversible("a request changed the user"), LIBC(seteuid)(id))
INTERPOSE(int, setreuid, (uid_t real_id, uid_t id),
          process_state_note_irreversible("a request changed the user"),
          LIBC(setreuid)(real_id, id))
INTERPOSE(int, setgid, (gid_t id),
          process_state_note_irreversible("a request changed the group"), LIBC(setgid)(id))
INTERPOSE(int, setegid, (gid_t id),
          process_state_note_irreversible("a request changed the group"), LIBC(setegid)(id))
INTERPOSE(int, setregid, (gid_t real_id, gid_t id),
          process_state_note_irreversible("a request changed the group"),
          LIBC(setregid)(real_id, id))
INTERPOSE(pid_t, setsid, (void),
          process_state_note_irreversible("a request left the session of processes"),
          LIBC(setsid)())
INTERPOSE(int, setpgid, (pid_t process, pid_t group),
          process_state_note_irreversible("a request changed a process group"),
          LIBC(setpgid)(process, group))
INTERPOSE(int, nice, (int by),
          process_state_note_irreversible("a request changed the priority"), LIBC(nice)(by))
INTERPOSE(int, setpriority, (__priority_which_t kind, id_t who, int priority),
          process_state_note_irreversible("a request changed the priority"),
          LIBC(setpriority)(kind, who, priority))
INTERPOSE(int, setresuid, (uid_t real_id, uid_t id, uid_t saved),
          process_state_note_irreversible("a request changed the user"),
          LIBC(setresuid)(real_id, id, saved))
INTERPOSE(int, setresgid, (gid_t real_id, gid_t id, gid_t saved),
          process_state_note_irreversible("a request changed the group"),
          LIBC(setresgid)(real_id, id, saved))
INTERPOSE(int, setgroups, (size_t count, const gid_t *groups),
          process_state_note_irreversible("a request changed the groups"),
          LIBC(setgroups)(count, groups))
INTERPOSE(int, initgroups, (const char *user, gid_t group),
          process_state_note_irreversible("a request changed the groups"),
          LIBC(initgroups)(user, group))
INTERPOSE(int, unshare, (int flags),
          process_state_note_irreversible("a request left a namespace"), LIBC(unshare)(flags))
INTERPOSE(int, setns, (int fd, int kind),
          process_state_note_irreversible("a request left a namespace"), LIBC(setns)(fd, kind))
INTERPOSE(int, sched_setaffinity, (pid_t process, size_t size, const cpu_set_t *processors),
          process_state_note_irreversible("a request changed the processors"),
          LIBC(sched_setaffinity)(process, size, processors))
INTERPOSE(int, sched_setscheduler,
          (pid_t process, int policy, const struct sched_param *parameters),
          process_state_note_irreversible("a request changed the priority"),
          LIBC(sched_setscheduler)(process, policy, parameters))
INTERPOSE(int, chroot, (const char *path),
          process_state_note_irreversible("a request changed the root directory"),
          LIBC(chroot)(path))

/* ---- programs that are started; fork() has handlers of its own ---- */
INTERPOSE(FILE *, popen, (const char *command, const char *mode),
          observers_child(), waiting_popen(command, mode))
INTERPOSE(int, system, (const char *command),
          observers_child(), waiting_system(command))
INTERPOSE(int, posix_spawn,
          (pid_t *process, const char *path, const posix_spawn_file_actions_t *actions,
           const posix_spawnattr_t *attributes, char *const *words, char *const *environment),
          observers_child(),
          LIBC(posix_spawn)(process, path, actions, attributes, words, environment))
INTERPOSE(int, posix_spawnp,
          (pid_t *process, const char *file, const posix_spawn_file_actions_t *actions,
           const posix_spawnattr_t *attributes, char *const *words, char *const *environment),
          observers_child(),
          LIBC(posix_spawnp)(process, file, actions, attributes, words, environment))

/* ---- libc's own settings ---- */
INTERPOSE(int, setenv, (const char *name, const char *value, int replace),
          classic_note_environment(), LIBC(setenv)(name, value, replace))
INTERPOSE(int, putenv, (char *text),
          classic_note_environment(), LIBC(putenv)(text))
INTERPOSE(int, unsetenv, (const char *name),
          classic_note_environment(), LIBC(unsetenv)(name))
INTERPOSE(int, clearenv, (void),
          classic_note_environment(), LIBC(clearenv)())
INTERPOSE(char *, textdomain, (const char *domain),
          classic_note_text_domain(), LIBC(textdomain)(domain))
INTERPOSE(char *, setlocale, (int category, const char *wanted),
          locale_note(wanted),
          text_domains_follow(LIBC(setlocale)(category, wanted)))

/* ---- memory ---- */
#ifdef ZEND_HAS_OOM
INTERPOSE(void, zend_handle_delayed_oom, (void),
          NOTHING, out_of_memory_raise(LIBC(zend_handle_delayed_oom)))
#endif
INTERPOSE(void *, mmap,
          (void *address, size_t len, int protection, int flags, int fd, off_t offset),
          NOTHING, image_mmap(address, len, protection, flags, fd, offset, __builtin_return_address(0)))
INTERPOSE(void *, mmap64,
          (void *address, size_t len, int protection, int flags, int fd, off_t offset),
          NOTHING, image_mmap(address, len, protection, flags, fd, offset, __builtin_return_address(0)))
INTERPOSE(int, munmap, (void *address, size_t len),
          NOTHING, image_munmap(address, len))
INTERPOSE(void *, mremap, (void *address, size_t old_len, size_t len, int flags, ...),
          READ_REST(flags), image_mremap(address, old_len, len, flags, (void *)rest[0]))
INTERPOSE(int, mprotect, (void *address, size_t len, int protection),
          NOTHING, image_mprotect(address, len, protection))
INTERPOSE(int, prctl, (int option, ...),
          READ_REST(option), image_prctl(option, rest))
