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
/* PHP's block of switches, in destructors: it is a count of the process, and others may switch
 * while what runs now waits in one. How deep it was. */
int fibers_unblock(void);
void fibers_block(int blocks);

/* ---- for fibers.c ---- */

zend_fiber_transfer fibers_switch_to(zend_fiber_context *to);
/* After a jump out of a request: what it has left that keeps others from running. */
void fibers_forget_jump(void);

#endif
