/* Sealed mode: the image, and requests that run from it. */
#ifndef TOKAMAK_SEALED_H
#define TOKAMAK_SEALED_H

#include "ground/state.h"

const shim_request *sealed_next(void);
/* After sapi_activate(); does nothing outside of a sealed worker. */
void sealed_begin(void);
void sealed_end(void) __attribute__((noreturn));
/* As shim_run_sealed(); in this mode, as soon as there can be an image. */
shim_exit sealed_run(const mode *sealed, const char *script, int is_boot, int signal_number,
                     int page_map, int line);

#endif
