/* Goes from one context of async mode to another. */
#ifndef TOKAMAK_FIBERS_SWITCHING_H
#define TOKAMAK_FIBERS_SWITCHING_H

#include "ground/compat.h"

#include <Zend/zend_fibers.h>

/* PHP's block of switches, in destructors: it is a count of the process, and others may switch
 * while what runs now waits in one. How deep it was. */
int fibers_unblock(void);
void fibers_block(int blocks);
zend_fiber_transfer fibers_switch_to(zend_fiber_context *to);
/* After a jump out of a request: what it has left that keeps others from running. */
void fibers_forget_jump(void);

#endif
