/* One request inside of a worker script. */
#ifndef TOKAMAK_REQUEST_CYCLE_H
#define TOKAMAK_REQUEST_CYCLE_H

#include "ground/state.h"

/* May jump. */
void request_begin(const shim_request *request);
/* What the handler has thrown goes to the script's exception handler, or to the log. */
void request_report_exception(void);
/* Completes the response. False: a fatal error has interrupted the end, too. */
bool request_end(void);
/* Also called for functions that were registered since the response was complete. False: as
 * above. */
bool request_run_shutdown_functions(void);
/* For an image: no output of the boot, and nothing that a request would have to tidy away. */
void request_discard_output(void);

#endif
