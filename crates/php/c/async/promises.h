/* Results that are to come, and who waits for them. */
#ifndef TOKAMAK_PROMISES_H
#define TOKAMAK_PROMISES_H

#include "async/reactor.h"
#include "ground/state.h"

typedef enum { PROMISE_PENDING, PROMISE_FULFILLED, PROMISE_REJECTED } promise_outcome;

/* The inside of an object that can be awaited. */
typedef struct promise {
    promise_outcome outcome;
    zval result;            /* of a fulfilled one */
    zend_object *exception; /* of a rejected one */
    bool is_seen;           /* its exception was thrown to a caller */
    struct promise_link *waiting;
    struct part *made_in; /* the coroutine that runs for it, see parts.h; NULL: none does */
    /* among those of its request: see coroutines.c */
    request_state *of;
    struct promise *next, **before;
} promise;

typedef enum {
    PROMISES_OVER,  /* what was waited for */
    PROMISES_LATE,  /* the time is over first */
    PROMISES_STUCK, /* it cannot wait here */
    PROMISES_CIRCLE /* a coroutine waits for itself, or for one that waits for it */
} promises_wait;

typedef enum {
    PROMISES_FIRST, /* one has an outcome */
    PROMISES_ALL,   /* each is fulfilled, or one is rejected */
    PROMISES_EACH   /* each has an outcome */
} promises_goal;

void promise_fulfill(promise *p, zval *result);
/* Takes the reference. */
void promise_reject(promise *p, zend_object *exception);
void promise_free(promise *p);

promises_wait promises_await(promise **some, size_t count, promises_goal goal, uint64_t deadline);
/* After PROMISES_CIRCLE: the first of them that waits for the coroutine in which this runs. */
promise *promises_circle(promise **some, size_t count);

#endif
