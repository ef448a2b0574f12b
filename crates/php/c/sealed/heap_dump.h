/* What a worker holds, written down for the seal report. */
#ifndef TOKAMAK_HEAP_DUMP_H
#define TOKAMAK_HEAP_DUMP_H

#include "ground/state.h"

const shim_request *heap_dump_next(void);
int heap_dump_answered(const shim_request *request);

#endif
