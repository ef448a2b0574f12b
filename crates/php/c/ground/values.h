/* Settings that come with a request over FastCGI. */
#ifndef TOKAMAK_VALUES_H
#define TOKAMAK_VALUES_H

#include "ground/state.h"

/* Once, when settings have php.ini's values. */
void values_learn(void);
bool values_come_with(const shim_request *request);
/* Before the request begins. */
void values_apply(const shim_request *request);
/* When all of the request's settings are there, as PHP's own request start-up: no path is
 * remembered while a script may only open some. */
void values_guard_paths(void);
/* After it has ended, or when the worker script asks for the next one; in sealed mode the roll-back
 * does it. */
void values_undo(void);

#endif
