/* Settings that come with a request over FastCGI. */
#ifndef TOKAMAK_VALUES_H
#define TOKAMAK_VALUES_H

#include "state.h"

/* Before the request begins. */
void values_apply(const shim_request *request);
/* After it has ended, or when the worker script asks for the next one; in sealed mode the roll-back
 * does it. */
void values_undo(void);

#endif
