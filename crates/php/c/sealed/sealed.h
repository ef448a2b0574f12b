/* Sealed mode: the image, and requests that run from it. */
#ifndef TOKAMAK_SEALED_H
#define TOKAMAK_SEALED_H

#include "state.h"

const shim_request *sealed_next(void);
int sealed_is_worker(void);
/* After sapi_activate(); does nothing outside of a sealed worker. */
void sealed_begin(void);
void sealed_end(void) __attribute__((noreturn));

#endif
