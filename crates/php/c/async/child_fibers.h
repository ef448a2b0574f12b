/* Fibers within a request of async mode, beside its own. */
#ifndef TOKAMAK_CHILD_FIBERS_H
#define TOKAMAK_CHILD_FIBERS_H

#include "async/reactor.h"
#include "ground/state.h"

/* What such a Fiber does. It lets no exception out. False: it ended by a fatal error. */
typedef bool (*child_job)(void *of);

typedef enum {
    CHILD_BEGUN,
    CHILD_TOO_MANY,  /* are under way */
    CHILD_HAS_THROWN /* no Fiber can be made: PHP has said why */
} child_begin;

/* Does it within the request whose turn it is, when that one waits. */
child_begin child_fibers_begin(child_job job, void *of);
/* In the script, when its loop has ended. */
void child_fibers_end(void);

#endif
