/* Contexts of async mode that wait. */
#ifndef TOKAMAK_FIBERS_PARKING_H
#define TOKAMAK_FIBERS_PARKING_H

#include <Zend/zend_fibers.h>

#include "async/reactor.h"
#include "state.h"

/* Whether what runs now can wait while others run. Also asked on other threads. */
bool fibers_may_park(void);
/* Lets others run until the wait is over, and keeps errno. False: the wait was broken off, errno is
 * ECANCELED, and an exception is on its way. Further waits of the same call are broken off at
 * once. */
bool fibers_park(reactor_wait *wait);
/* Breaks a wait off: the context that waits gets this exception, and this function the reference to
 * it. NULL: the one of its request. */
void fibers_interrupt(reactor_wait *wait, zend_object *exception);
/* A part beside the handler; it goes with its last owner: who has made it, or a context of it. */
fibers_part *fibers_part_make(void);
void fibers_part_let_go(fibers_part *part);
/* The Fiber that runs is this part of its request from now on. */
void fibers_be(fibers_part *part);
/* Breaks off what the part waits for, or else its next wait. Takes the reference. */
void fibers_break_part(request_state *request, fibers_part *part, zend_object *exception);

/* ---- for fibers.c ---- */

/* After module start-up; and when the loop begins. */
void fibers_watch_parking(void);
void fibers_begin_parking(void (*throw_cancelled)(void));
/* A context is made: it is of the part that makes it, or (is_of_loop) of none so far. */
void fibers_inherit_part(zend_fiber_context *made, bool is_of_loop);
zend_fiber_transfer fibers_switch_to(zend_fiber_context *to);
/* After a jump out of a request: what it has left that keeps others from running. */
void fibers_forget_jump(void);
/* The context of a request that has waited for the shortest time; NULL: none waits. Its wait
 * belongs to another request from now on. */
zend_fiber_context *fibers_first_waiting(const request_state *request);
void fibers_pass_on(request_state *from, request_state *to);
/* Breaks off all that a request waits for, or else its next wait. */
void fibers_break_request(request_state *request);

#endif
