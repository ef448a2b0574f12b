/* What others see of each request of async mode: whether it runs, or what it waits for. */
#ifndef TOKAMAK_SHOWN_H
#define TOKAMAK_SHOWN_H

#include "async/reactor.h"
#include "ground/state.h"

/* It runs from now on. */
void shown_running(const request_state *request);
/* It does not. The wait is the newest of those that it has; `others`: how many more there are.
 * NULL: it has suspended its Fiber. */
void shown_waiting(const request_state *request, const reactor_wait *wait, unsigned others);

#endif
