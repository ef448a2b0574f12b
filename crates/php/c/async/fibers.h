/* A Fiber for each request of async mode. */
#ifndef TOKAMAK_FIBERS_H
#define TOKAMAK_FIBERS_H

#include <Zend/zend_fibers.h>

#include "ground/state.h"

typedef struct {
    /* Serves one request in its Fiber. False: PHP cannot be relied on any more. */
    bool (*serve)(const shim_request *request);
    /* The worker is to be replaced when the requests under way are over. */
    void (*take_no_more)(const char *why);
} fibers_handlers;

#define FIBERS_FATAL_ERROR "a fatal error"

/* In the script, when its loop begins, and when it has ended. NULL: it has begun; else why not. */
const char *fibers_begin(size_t most, uint32_t seed, const fibers_handlers *handlers);
void fibers_end(void);
/* After module start-up. With the calls of a request that is cancelled, throw_cancelled() throws
 * its exception. */
void fibers_watch(void (*throw_cancelled)(const request_state *request));

/* Whether there is a Fiber for one more request, of which fewer than `most` are under way. */
bool fibers_can_start(void);
/* Begins one then; returns when it waits for something, or is over. */
void fibers_start(const shim_request *request);
/* For tests: a request that could go on lets others go first. */
bool fibers_take_turns(void);
/* Goes on with those whose wait is over, and with so many that these wake: two that wake each other
 * must not keep the rest waiting. */
void fibers_go_on(void);
/* Requests under way. */
size_t fibers_count(void);

/* For child_fibers.c. In a Fiber without work, until it is entered: lets the next context run.
 * False: it is destroyed, has thrown. */
bool fibers_await_work(zend_fiber_context *next);
/* In the script's context: it has work, for this request. Returns when it waits for something, or
 * is over. */
void fibers_enter(zend_fiber_context *context, request_state *of);

/* Counts the switches to another request. Also read in signal handlers. */
extern volatile sig_atomic_t fibers_switches;
/* Whether what runs now is of a request. Also asked on other threads. */
bool fibers_in_request(void);
/* Whether what runs now is in no Fiber, or in one that the loop has entered: a request's own, or a
 * coroutine's. */
bool fibers_is_outermost(void);
/* In the loop: asks all parts of a request to end. It runs, if it has suspended its Fiber. In a
 * request: a Fiber that is suspended is not asked. */
void fibers_cancel(request_state *request, uint64_t now);
/* Whether this process is another that runs in the memory of the worker (vfork() makes such): what
 * it closes stays open in the worker. */
bool fibers_is_vfork_child(void);
/* A descriptor is about to be closed, on whatever thread. */
void fibers_note_closed(int fd);

#endif
