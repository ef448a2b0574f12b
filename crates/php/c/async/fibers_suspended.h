/* Parts of requests that suspend their own Fiber. */
#ifndef TOKAMAK_FIBERS_SUSPENDED_H
#define TOKAMAK_FIBERS_SUSPENDED_H

#include "ground/compat.h"

#include <stdbool.h>

#include <Zend/zend_fibers.h>

/* Another context runs from now on instead of this one. */
void fibers_note_suspended(zend_fiber_context *from);
/* In the loop, after whatever ran has come back to it: resumes by an exception those that cannot
 * stay suspended. */
void fibers_mind_suspended(void);
/* Whether each request under way waits for nothing but others of them. */
bool fibers_are_stuck(void);

#endif
