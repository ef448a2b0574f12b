/* PHP's stack as text, for the log. */
#ifndef TOKAMAK_STACKS_H
#define TOKAMAK_STACKS_H

#include "ground/state.h"

/* FILE:LINE, and in a line for each call the calls that led there, as PHP's exceptions have it; of
 * these frames, which are those of the context that runs, or of one that waits. */
zend_string *stacks_text(const zend_execute_data *frames);

#endif
