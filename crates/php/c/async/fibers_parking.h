/* Contexts of async mode that wait. */
#ifndef TOKAMAK_FIBERS_PARKING_H
#define TOKAMAK_FIBERS_PARKING_H

#include <Zend/zend_fibers.h>

#include "async/fibers_switching.h"
#include "async/reactor.h"
#include "ground/state.h"

/* Whether what runs now can wait while others run. Also asked on other threads. */
bool fibers_may_park(void);
/* Lets others run until the wait is over, and keeps errno. False: the wait was broken off, errno is
 * ECANCELED, and an exception is on its way. Further waits of the same call are broken off at
 * once. */
bool fibers_park(reactor_wait *wait);

#endif
