/* Runs the script of a request. */
#ifndef TOKAMAK_SCRIPT_H
#define TOKAMAK_SCRIPT_H

#include "shim/shim.h"

/* That of the request, or the answer that it cannot be run. */
void script_run(const shim_request *request);
/* Runs a file as the primary script, in its own directory; the path ends with a NUL. */
void script_execute(const char *path, size_t len);

#endif
