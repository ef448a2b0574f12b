/* Locks and semaphores: libc's functions that wait for them, in async mode.
 *
 * They have no event: they are tried again and again, more and more slowly. Waiting for them in the
 * kernel could be for ever, if another request of this process has the lock.
 */
#include <errno.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "waiting.h"
#include "waiting_for.h"

enum { FEW = 8 }; /* operations on semaphores at once; more wait as in libc */

int waiting_flock(int fd, int operation)
{
    uint64_t pause = 0;

    if ((operation & LOCK_NB) || !fibres_may_park()) {
        return (int)syscall(SYS_flock, fd, operation);
    }
    waiting_take_turns();
    while (syscall(SYS_flock, fd, operation | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) {
            return -1;
        }
        waiting_pause(&pause);
    }
    return 0;
}

int waiting_semtimedop(int set, struct sembuf *operations, size_t count,
                       const struct timespec *patience)
{
    const uint64_t deadline =
        patience ? waiting_after(waiting_nanoseconds(patience)) : REACTOR_FOREVER;
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
    waiting_take_turns();
    while (syscall(SYS_semtimedop, set, tried, count, NULL) != 0) {
        if (errno != EAGAIN || reactor_now() >= deadline) {
            return -1;
        }
        waiting_pause(&pause);
    }
    return 0;
}
