/* The collection of cycles, in which no request may wait. */
#ifndef TOKAMAK_COLLECTING_H
#define TOKAMAK_COLLECTING_H

#include <Zend/zend_fibers.h>

/* After module start-up. */
void collecting_watch(void);
/* Whether PHP collects cycles. */
bool collecting_now(void);
/* It has ended by a jump. */
void collecting_note_jump(void);
/* Whether this is the Fiber in which PHP 8.4 calls destructors while it collects. */
bool collecting_in(const zend_fiber_context *context);

#endif
