/* Results that are to come, and who waits for them. */
#ifndef TOKAMAK_PROMISES_H
#define TOKAMAK_PROMISES_H

#include "async/reactor.h"
#include "state.h"

typedef enum { PROMISE_PENDING, PROMISE_FULFILLED, PROMISE_REJECTED } promise_outcome;

/* The inside of an object that can be awaited. */
typedef struct promise {
    promise_outcome outcome;
    zval result;            /* of a kept one */
    zend_object *exception; /* of a broken one */
    bool is_seen;           /* somebody has got its exception */
    struct promise_link *waiting;
    /* among those of its request: see coroutines.c */
    request_state *of;
    struct promise *next, **before;
} promise;

typedef enum {
    PROMISES_OVER, /* what was waited for */
    PROMISES_LATE, /* the time is over first */
    PROMISES_STUCK /* it cannot wait here */
} promises_wait;

void promise_fulfill(promise *p, zval *result);
/* Takes the reference. */
void promise_reject(promise *p, zend_object *exception);
void promise_free(promise *p);

/* Waits until one of them has an outcome, or (for_all) each has, or one is broken. Those that
 * are NULL do not count. */
promises_wait promises_await(promise **some, size_t count, bool for_all, uint64_t deadline);

#endif
