/* What waits inside of libc, where no other request can run: a thread calls it, in async mode. */
#ifndef TOKAMAK_WAITING_ASIDE_H
#define TOKAMAK_WAITING_ASIDE_H

#include <stdbool.h>
#include <stdint.h>

/* One call, with memory of its own for all that it reads and writes: the request that waits for it
 * may be cancelled, and the thread goes on then. It belongs to both, and the last of them ends it.
 * The first member of what a function needs beside it. */
typedef struct waiting_call {
    void (*make)(struct waiting_call *call); /* in the thread */
    void (*end)(struct waiting_call *call);  /* frees all of it */
    int error, name_error; /* errno and h_errno, which are a thread's own */
    /* What the thread has written is the answer from here on, for who has read true. */
    _Atomic bool is_answered;
    /* An eventfd, which the last of both closes; -1: it was closed elsewhere, and its number
     * may be another file's. */
    _Atomic int answered;
    _Atomic int owners;
} waiting_call;

typedef enum {
    WAITING_NOT_BEGUN, /* there is no descriptor or thread for it; it has been ended */
    WAITING_ANSWERED,  /* errno and h_errno are the call's; let it go when the answer is taken */
    WAITING_LEFT       /* the wait was broken off, see fibers_park(), or cannot end, because the
                        * eventfd was closed; it has been let go */
} waiting_outcome;

/* Parks until the thread has made the call. Only for those who may park: see fibers_may_park(). */
waiting_outcome waiting_aside(waiting_call *call, uint8_t kind);
void waiting_let_go(waiting_call *call);

#endif
