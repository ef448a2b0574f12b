/* Runs requests, and what the zygote asks of a worker's process. */
#ifndef TOKAMAK_SHIM_RUN_H
#define TOKAMAK_SHIM_RUN_H

#include "shim/request.h"

typedef enum { SHIM_DONE, SHIM_BAILED, SHIM_NO_START } shim_outcome;
typedef enum { SHIM_LEFT, SHIM_ENDED, SHIM_CRASHED, SHIM_NEVER_LOOPED } shim_exit;

/* One request, classic mode. The response has a head and an end when it returns, unless
 * SHIM_NO_START. */
shim_outcome shim_serve(const shim_request *request);
/* The worker script, from its first line until it ends; asks rust_next for each request. */
shim_exit shim_run_script(const char *script);

/* The worker is about to sleep: lets go of what others may wait for. */
void shim_idle(void);
/* Sealed mode: whether this worker has used no slot of the queue with this number yet. From then on
 * it has. */
int shim_is_new_slot(uint32_t slot);
/* How many sockets that PHP has open were closed by their peers. */
int shim_stale_sockets(void);
/* Bytes that the Zend memory manager held for the last request. */
size_t shim_memory(void);
/* In async mode: waits that held all of the worker's requests. */
uint32_t shim_held(void);

#endif
