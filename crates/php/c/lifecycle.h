/* A request's way through PHP, in classic mode. */
#ifndef TOKAMAK_LIFECYCLE_H
#define TOKAMAK_LIFECYCLE_H

#include "state.h"

void lifecycle_settle_signals(int backtrace_signal);
void lifecycle_run(const shim_request *request);
/* Runs a file as the primary script, in its own directory; the path ends with a NUL. */
void lifecycle_execute(const char *path, size_t len);

#endif
