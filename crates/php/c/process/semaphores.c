/* System V semaphores that a request has acquired and not released.
 *
 * The kernel undoes operations with SEM_UNDO when the process ends. A process that is rolled back,
 * or serves the next request in classic mode, goes on, so their sums are kept here, and undone when
 * the request ends. Operations without
 * SEM_UNDO are meant to stay. */
#include <errno.h>
#include <stdio.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "process/semaphores.h"
#include "ground/mode.h"
#include "ground/state.h"
#include "ground/taint.h"
#include "image.h"
#include "process/process_state.h"

enum { MOST = 64 }; /* semaphores that one request uses; with more the worker is replaced */

typedef struct {
    int set;
    unsigned short number;
    int sum;
} adjustment;

/* In the persistent region. */
typedef struct {
    int count;
    adjustment all[MOST];
} adjustments;

static adjustments of_boot; /* until the image is taken */
static adjustments *done = &of_boot;

size_t semaphores_size(void)
{
    return sizeof(adjustments);
}

static void add(int set, const struct sembuf *operation)
{
    adjustment *a = done->all, *end = a + done->count;

    while (a < end && (a->set != set || a->number != operation->sem_num)) {
        a++;
    }
    if (a == done->all + MOST) {
        process_state_note_irreversible("a request used too many semaphores");
        return;
    }
    if (a == end) {
        *a = (adjustment){set, operation->sem_num, 0};
        done->count++;
    }
    a->sum += operation->sem_op;
}

int semaphores_operated(int set, const struct sembuf *operations, size_t count, int result)
{
    /* A library may call before there is a mode. */
    const bool is_undone =
        (shim.mode && shim.mode->restores_memory) || process_state_is_watching();

    for (size_t i = 0; result == 0 && is_undone && !shim.is_copy && i < count; i++) {
        if (operations[i].sem_flg & SEM_UNDO) {
            add(set, &operations[i]);
        }
    }
    return result;
}

const char *semaphores_refusal(void)
{
    static char refusal[128];

    for (int i = 0; i < of_boot.count; i++) {
        if (of_boot.all[i].sum < 0) {
            snprintf(refusal, sizeof(refusal),
                     "semaphore %d is acquired; release it before the first request",
                     of_boot.all[i].set);
            return refusal;
        }
    }
    return NULL;
}

void semaphores_learn(void *kept)
{
    done = kept;
}

void semaphores_restore(void)
{
    for (int i = 0; i < done->count; i++) {
        const adjustment *a = &done->all[i];
        struct sembuf back = {a->number, (short)-a->sum, SEM_UNDO | IPC_NOWAIT};
        /* It may have been removed. */
        if (a->sum && syscall(SYS_semtimedop, a->set, &back, 1, NULL) != 0 && errno != EINVAL &&
            errno != EIDRM) {
            taint_note("a request has changed a semaphore");
        }
    }
    done->count = 0;
}
