/* The parts of a request of async mode: its handler, and its coroutines. */
#ifndef TOKAMAK_PARTS_H
#define TOKAMAK_PARTS_H

#include <Zend/zend_fibers.h>

#include "async/reactor.h"
#include "ground/state.h"

/* Between two attempts to end the same part. A tenth would break off what cleans up; ten times more
 * would leave requests without a client at work for long, and be longer than the supervisor waits
 * after request_timeout (crates/supervisor/src/watch.rs). */
#define PARTS_GRACE UINT64_C(2000000000)

/* On the stack of a context that waits. */
typedef struct parked {
    reactor_wait *wait;
    const zend_execute_data *frames; /* its calls */
    struct parked *next, **before;
} parked;

/* Its wait can be broken off, and it knows nothing of the others then. */
typedef struct part {
    request_state *of;
    zend_fiber_context *root; /* of the Fiber that it runs in; NULL: it does not run */
    parked *waits;            /* of its Fiber, and of Fibers that the application has made in it */
    bool breaks_next;         /* its next wait is broken off */
    zend_object *reason;      /* by this exception; NULL: by the one of its request */
    bool is_breaking;         /* a call in which a wait was broken off has not returned yet */
    uint64_t is_let_be_until; /* while it cleans up; 0: it was never asked to end */
    bool is_over;
    size_t users; /* contexts, and the one who has begun it */
    struct part *next, **before; /* of its request */
    /* for promises.c */
    const struct gathering *awaits; /* what it needs to go on; NULL: it awaits no such thing */
    uint64_t looked_at;             /* by the last search for a circle that came here */
    bool is_stuck;                  /* as far as that search knows */
    struct part *looked_next;       /* that the same search has found */
} part;

/* After module start-up. False: PHP has no place for it. */
bool parts_watch(void (*throw_cancelled)(const request_state *request));
/* Throws the exception of a cancelled request. */
extern void (*parts_throw_cancelled)(const request_state *request);
/* A request begins: its handler is in memory that lasts as long as it. */
void parts_begin_handler(part *handler, request_state *of);
void parts_end_handler(part *handler);
/* In a Fiber of a request: it is a part of its own from now on; and it is over. */
part *parts_begin(void);
void parts_end(part *p);
/* The one in which this runs. Only within a request. */
part *parts_running(void);
/* A context belongs to the part in which this runs from now on. */
void parts_inherit(zend_fiber_context *context);

/* Around a wait. */
void parts_note_parked(part *p, parked *here);
void parts_forget_parked(parked *here);
/* Of Fibers that a request leaves behind: the context that waits, and NULL if none does. Its wait
 * belongs to another request from now on. */
zend_fiber_context *parts_first_waiting(const request_state *request);
void parts_pass_on_wait(request_state *from, request_state *to);
/* Others see what the request waits for: it does not run any more. */
void parts_show_waits(request_state *request);
/* In the context whose wait is broken off: throws, if something can be thrown there. False, and
 * errno is ECANCELED. */
bool parts_break_off(part *p, zend_object *reason);
/* Whether the part's next wait is to be broken off, and then by what; it is not any more. */
bool parts_take_break(part *p, zend_object **reason);

/* A part that waited for nothing was asked to end: it may be suspended. */
extern bool parts_have_breaks;
/* Breaks off what it waits for, or else its next wait. Takes the reference to the exception; NULL:
 * the one of its request. */
void parts_break(part *p, zend_object *reason);
/* The same, if it was not asked to end, or has had PARTS_GRACE for it. */
void parts_cancel(part *p, zend_object *reason, uint64_t now);
/* The same for all parts of a request. */
void parts_cancel_all(request_state *request, uint64_t now);
/* If the part in which this runs was asked to end, and has not waited since then: throws now what
 * its next wait would. */
void parts_break_here(void);
/* Whether one of its waits ends by an event, or by time, and not only by what other parts do. */
bool parts_await_events(const part *p);

#endif
