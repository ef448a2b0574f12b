/* A Fiber for each request of async mode. */
#ifndef TOKAMAK_FIBERS_H
#define TOKAMAK_FIBERS_H

#include <Zend/zend_fibers.h>

#include "async/fibers_parking.h"
#include "state.h"

typedef struct {
    /* Serves one request in its Fiber. False: PHP cannot be relied on any more. */
    bool (*serve)(const shim_request *request);
    /* With the calls of a request that is cancelled: throws what it is told by. */
    void (*throw_cancelled)(const request_state *request);
} fibers_handlers;

/* In the script, when its loop begins, and when it has ended. */
bool fibers_begin(size_t most, uint32_t seed, const fibers_handlers *handlers);
void fibers_end(void);
/* After module start-up. */
void fibers_watch(void);

/* Begins a request; returns when it waits for something, or is over. */
void fibers_start(const shim_request *request);
/* For tests: a request that could go on lets others go first. */
bool fibers_take_turns(void);
/* Goes on with those whose wait is over. */
void fibers_go_on(void);
/* Requests under way. */
size_t fibers_count(void);

/* For child_fibers.c, in the script's context. A Fiber of a request is made and entered, or entered
 * again: returns when it waits for something, or is over. */
void fibers_enter_new(zval *object, zend_internal_function *function, request_state *of);
void fibers_enter(zend_fiber_context *context, request_state *of);
/* In a Fiber whose work is done, until it is entered again. False: it is destroyed, has thrown. */
bool fibers_await_work(void);

/* Whether what runs now is of a request. Also asked on other threads. */
bool fibers_in_request(void);
/* Whether what runs now is in no Fiber, or in one that the loop has entered: a request's own, or a
 * coroutine's. */
bool fibers_is_outermost(void);
/* In the loop: tells all parts of a request to end. It runs, if it has suspended its Fiber. In a
 * request: a Fiber that is suspended is not told. */
void fibers_cancel(request_state *request, uint64_t now);
/* In the loop: the request under way that began next after this one; NULL: there is none. */
request_state *fibers_newer(const request_state *request);
/* Whether each request under way waits for nothing but others of them. */
bool fibers_are_stuck(void);
/* A descriptor is about to be closed, on whatever thread. */
void fibers_note_closed(int fd);

#endif
