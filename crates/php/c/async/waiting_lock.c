/* Locks, semaphores and message queues: libc's functions that wait for them, in async mode.
 *
 * They have no event: they are tried again and again, more and more slowly. Waiting for them in the
 * kernel could be for ever, if another request of this process has the lock. If it is a request of
 * this process that releases it, the one that has waited for longest gets it at once.
 *
 * Where others cannot be let in (see fibers_may_park()), the one that has the lock may never get to
 * release it. So that ends with an error, and a line in the log.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "async/fibers_parking.h"
#include "async/kinds.h"
#include "async/reactor.h"
#include "async/waiting.h"
#include "async/waiting_for.h"
#include "ground/libc.h"

enum { FEW = 8 }; /* operations on semaphores at once; more wait as in libc */

/* For a lock that another request of this process may have, which cannot go on. Longer, all of its
 * requests would stand still for nothing; shorter, one that another process has for a moment could
 * not be had. */
#define LONGEST_HOLD (5 * WAITING_SECOND)
#define PAUSE_OF_ALL (4 * WAITING_MILLISECOND)

/* ---- who waits for what ---- */

typedef enum {
    LOCKED_FILE,
    LOCKED_RANGE,
    SEMAPHORES,
    MESSAGES,
    ROOM_FOR_MESSAGES,
    MUTEX
} resource_kind;

typedef struct {
    resource_kind kind;
    uint64_t id, device;
} resource;

/* As it is shown: see shown.c. */
static const uint8_t shown_as[] = {
    [LOCKED_FILE] = SHIM_AWAITS_LOCK,       [LOCKED_RANGE] = SHIM_AWAITS_LOCK,
    [SEMAPHORES] = SHIM_AWAITS_SEMAPHORE,   [MESSAGES] = SHIM_AWAITS_MESSAGE,
    [ROOM_FOR_MESSAGES] = SHIM_AWAITS_MESSAGE, [MUTEX] = SHIM_AWAITS_LOCK};

/* On the stack of the one who waits. */
typedef struct contender {
    resource wanted;
    reactor_wait wait;
    bool is_parked;
    struct contender *next;
} contender;

/* The one that has waited for longest is the first. */
static contender *contenders;

static void enter(contender *c)
{
    contender **at = &contenders;

    while (*at) {
        at = &(*at)->next;
    }
    *at = c;
}

static void leave(contender *c)
{
    contender **at = &contenders;

    while (*at != c) {
        at = &(*at)->next;
    }
    *at = c->next;
}

/* `id`: a descriptor, if it is about a file. */
static resource resource_of(resource_kind kind, uint64_t id)
{
    resource of = {.kind = kind, .id = id};
    struct stat st;

    if ((kind == LOCKED_FILE || kind == LOCKED_RANGE) && fstat((int)id, &st) == 0) {
        of.id = st.st_ino;
        of.device = st.st_dev;
    }
    return of;
}

static bool is_same(const resource *a, const resource *b)
{
    return a->kind == b->kind && a->device == b->device && a->id == b->id;
}

/* Whether no other request has waited for it for longer. Other kinds than whole files have no
 * order: who waits for one range, or one semaphore of a set, must not stand in the way of others.
 * */
static bool is_first(const contender *c)
{
    const contender *other = contenders;

    if (c->wanted.kind != LOCKED_FILE) {
        return true;
    }
    while (other && other != c && !is_same(&other->wanted, &c->wanted)) {
        other = other->next;
    }
    return !other || other == c;
}

/* Wakes the request that has waited for longest, so that it tries at once. Of those that wait for
 * messages it wakes all, since each may want another type. */
static void hand_on(resource_kind kind, uint64_t id)
{
    resource released;

    if (!contenders || !fibers_in_request()) {
        return;
    }
    released = resource_of(kind, id);
    for (contender *c = contenders; c; c = c->next) {
        if (c->is_parked && is_same(&c->wanted, &released)) {
            reactor_finish(&c->wait);
            if (kind != MESSAGES) {
                return;
            }
        }
    }
}

void waiting_note_closed(int fd)
{
    hand_on(LOCKED_FILE, (uint64_t)fd);
    hand_on(LOCKED_RANGE, (uint64_t)fd);
}

/* ---- trying ---- */

/* 0: done; -1: as errno says. */
typedef long (*attempt)(void *what);

static bool is_held_by_others(int error)
{
    return error == EWOULDBLOCK || error == EAGAIN || error == EACCES || error == ENOMSG ||
           error == EBUSY;
}

static void report_deadlock(const char *name)
{
    const shim_text *uri = &serving->request->field[SHIM_URI];
    const char *caller = get_active_function_name();
    const bool has_caller = caller && strcmp(caller, name) != 0;
    char line[512];
    int len = snprintf(line, sizeof(line),
                       "%s()%s%s%s waited in vain for %.1f s, where others cannot run (while a "
                       "class is loaded, or in an output callback), so that none of this worker's "
                       "requests could release it: given up, for %.*s",
                       name, has_caller ? ", called by " : "", has_caller ? caller : "",
                       has_caller ? "()," : "", (double)LONGEST_HOLD / WAITING_SECOND,
                       (int)(uri->len < 200 ? uri->len : 200), uri->at);

    rust_log(SHIM_WARN, line, len < (int)sizeof(line) ? (size_t)len : sizeof(line) - 1);
}

/* Where no other request may run: the whole process waits. */
static long hold(const char *name, attempt try, void *what, uint64_t deadline)
{
    const bool may_be_in_vain = fibers_count() > 1;
    const uint64_t limit = waiting_after(LONGEST_HOLD);
    const struct timespec pause = {0, PAUSE_OF_ALL};
    long result;

    while ((result = try(what)) < 0 && is_held_by_others(errno) && reactor_now() < deadline) {
        if (may_be_in_vain && reactor_now() >= limit) {
            report_deadlock(name);
            errno = EDEADLK;
            break;
        }
        syscall(SYS_nanosleep, &pause, NULL);
    }
    return result;
}

static long try_in_turn(const contender *c, attempt try, void *what)
{
    if (!is_first(c)) {
        errno = EWOULDBLOCK;
        return -1;
    }
    return try(what);
}

static long contend(const char *name, resource_kind kind, uint64_t id, attempt try, void *what,
                    uint64_t deadline)
{
    contender c = {.wanted.kind = kind};
    uint64_t pause = 0;
    bool is_whole;
    long result;

    if (!fibers_may_park()) {
        return WAITING_HELD(hold(name, try, what, deadline));
    }
    waiting_take_turns();
    if (contenders) {
        c.wanted = resource_of(kind, id);
    }
    result = try_in_turn(&c, try, what);
    if (result >= 0 || !is_held_by_others(errno)) {
        return result;
    }
    c.wanted = resource_of(kind, id);
    enter(&c);
    do {
        uint64_t until = waiting_next_attempt(&pause);
        c.wait = (reactor_wait){.deadline = until < deadline ? until : deadline,
                                .kind = shown_as[kind]};
        c.is_parked = true;
        is_whole = fibers_park(&c.wait);
        c.is_parked = false;
        if (!is_whole) {
            break;
        }
        result = try_in_turn(&c, try, what);
    } while (result < 0 && is_held_by_others(errno) && reactor_now() < deadline);
    leave(&c);
    return result;
}

/* ---- locks of files ---- */

typedef struct {
    int fd, command;
    struct flock *lock;
} file_lock;

static long try_flock(void *what)
{
    const file_lock *l = what;

    return syscall(SYS_flock, l->fd, l->command | LOCK_NB);
}

int waiting_flock(int fd, int operation)
{
    file_lock l = {.fd = fd, .command = operation};
    int result;

    if (!fibers_in_request()) {
        return (int)syscall(SYS_flock, fd, operation);
    }
    result = (operation & (LOCK_NB | LOCK_UN))
                 ? (int)syscall(SYS_flock, fd, operation)
                 : (int)contend("flock", LOCKED_FILE, (uint64_t)fd, try_flock, &l,
                                REACTOR_FOREVER);
    if (result == 0 && !(operation & LOCK_EX)) {
        hand_on(LOCKED_FILE, (uint64_t)fd);
    }
    return result;
}

/* The same lock, of the open file and not of the process: requests of one process exclude each
 * other, too. */
static int of_file(int command)
{
    switch (command) {
    case F_SETLK:
        return F_OFD_SETLK;
    case F_SETLKW:
        return F_OFD_SETLKW;
    case F_GETLK:
        return F_OFD_GETLK;
    default:
        return command;
    }
}

/* Whether the process has a conflicting one already. It would exclude itself. */
static bool has_locks_of_process(int fd, const struct flock *lock)
{
    struct flock other = *lock;

    other.l_pid = 0;
    return !kinds_has_own_locks(fd) && syscall(SYS_fcntl, fd, F_OFD_GETLK, &other) == 0 &&
           other.l_type != F_UNLCK && other.l_pid == (pid_t)syscall(SYS_getpid);
}

static long try_fcntl(void *what)
{
    file_lock *l = what;

    return syscall(SYS_fcntl, l->fd, l->command, l->lock);
}

int waiting_fcntl_lock(int fd, int command, struct flock *lock)
{
    file_lock l = {.fd = fd, .lock = lock};
    const bool waits = command == F_SETLKW || command == F_OFD_SETLKW;
    int result;

    if (!fibers_in_request()) {
        return (int)syscall(SYS_fcntl, fd, command, lock);
    }
    if (command == F_SETLKW && lock->l_type != F_UNLCK && !has_locks_of_process(fd, lock)) {
        kinds_note_own_locks(fd);
    }
    if (kinds_has_own_locks(fd)) {
        command = of_file(command);
        lock->l_pid = 0;
    }
    l.command = command == F_OFD_SETLKW ? F_OFD_SETLK : F_SETLK;
    result = waits && lock->l_type != F_UNLCK
                 ? (int)contend("fcntl", LOCKED_RANGE, (uint64_t)fd, try_fcntl, &l,
                                REACTOR_FOREVER)
                 : (int)syscall(SYS_fcntl, fd, command, lock);
    if (result == 0 && lock->l_type != F_WRLCK && command != F_GETLK && command != F_OFD_GETLK) {
        hand_on(LOCKED_RANGE, (uint64_t)fd);
    }
    return result;
}

/* From where the file stands. */
int waiting_lockf(int fd, int command, off_t len)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_len = len};

    switch (command) {
    case F_LOCK:
        return waiting_fcntl_lock(fd, F_SETLKW, &lock);
    case F_TLOCK:
        return waiting_fcntl_lock(fd, F_SETLK, &lock);
    case F_ULOCK:
        lock.l_type = F_UNLCK;
        return waiting_fcntl_lock(fd, F_SETLK, &lock);
    default:
        return LIBC(lockf)(fd, command, len);
    }
}

/* ---- System V ---- */

typedef struct {
    int set;
    struct sembuf *operations;
    size_t count;
} semaphore_operations;

static long try_semaphores(void *what)
{
    const semaphore_operations *s = what;

    return syscall(SYS_semtimedop, s->set, s->operations, s->count, NULL);
}

int waiting_semtimedop(int set, struct sembuf *operations, size_t count,
                       const struct timespec *patience)
{
    struct sembuf tried[FEW];
    semaphore_operations s = {set, tried, count};
    bool waits = false, releases = false;
    int result;

    if (!fibers_in_request() || count > FEW) {
        return (int)syscall(SYS_semtimedop, set, operations, count, patience);
    }
    for (size_t i = 0; i < count; i++) {
        tried[i] = operations[i];
        tried[i].sem_flg |= IPC_NOWAIT;
        waits |= !(operations[i].sem_flg & IPC_NOWAIT);
        releases |= operations[i].sem_op > 0;
    }
    result = waits ? (int)contend("semop", SEMAPHORES, (uint64_t)set, try_semaphores, &s,
                                  patience ? waiting_after(waiting_nanoseconds(patience))
                                           : REACTOR_FOREVER)
                   : (int)try_semaphores(&s);
    if (result == 0 && releases) {
        hand_on(SEMAPHORES, (uint64_t)set);
    }
    return result;
}

typedef struct {
    int queue, flags;
    void *at;
    size_t len;
    long type;
} message;

static long try_receive(void *what)
{
    const message *m = what;

    return syscall(SYS_msgrcv, m->queue, m->at, m->len, m->type, m->flags | IPC_NOWAIT);
}

static long try_send(void *what)
{
    const message *m = what;

    return syscall(SYS_msgsnd, m->queue, m->at, m->len, m->flags | IPC_NOWAIT);
}

ssize_t waiting_msgrcv(int queue, void *at, size_t len, long type, int flags)
{
    message m = {queue, flags, at, len, type};
    ssize_t result;

    if (!fibers_in_request()) {
        return syscall(SYS_msgrcv, queue, at, len, type, flags);
    }
    result = (flags & IPC_NOWAIT)
                 ? try_receive(&m)
                 : contend("msgrcv", MESSAGES, (uint64_t)queue, try_receive, &m, REACTOR_FOREVER);
    if (result >= 0) {
        hand_on(ROOM_FOR_MESSAGES, (uint64_t)queue);
    }
    return result;
}

int waiting_msgsnd(int queue, const void *at, size_t len, int flags)
{
    message m = {queue, flags, (void *)at, len, 0};
    int result;

    if (!fibers_in_request()) {
        return (int)syscall(SYS_msgsnd, queue, at, len, flags);
    }
    result = (int)((flags & IPC_NOWAIT)
                       ? try_send(&m)
                       : contend("msgsnd", ROOM_FOR_MESSAGES, (uint64_t)queue, try_send, &m,
                                 REACTOR_FOREVER));
    if (result == 0) {
        hand_on(MESSAGES, (uint64_t)queue);
    }
    return result;
}

/* ---- of the process ---- */

static long try_mutex(void *what)
{
    errno = pthread_mutex_trylock(what);
    return errno == 0 ? 0 : -1;
}

/* Libraries lock around what waits (libldap around the resolver). This thread has the mutex, for
 * another request, which could never go on if the thread waited. */
static bool is_held_by_this_thread(const pthread_mutex_t *mutex)
{
    const int kind = mutex->__data.__kind & 3;

    return mutex->__data.__owner != 0 &&
           (kind == PTHREAD_MUTEX_TIMED_NP || kind == PTHREAD_MUTEX_ADAPTIVE_NP) &&
           mutex->__data.__owner == (int)syscall(SYS_gettid);
}

int waiting_mutex_lock(pthread_mutex_t *mutex)
{
    const int error = errno;
    int result;

    if (!fibers_may_park() || !is_held_by_this_thread(mutex)) {
        return LIBC(pthread_mutex_lock)(mutex);
    }
    result = contend("pthread_mutex_lock", MUTEX, (uintptr_t)mutex, try_mutex, mutex,
                     REACTOR_FOREVER) == 0
                 ? 0
                 : errno;
    errno = error;
    return result;
}
