/* A pool, as fpm_get_status() shows it. */
#ifndef TOKAMAK_SHIM_POOL_H
#define TOKAMAK_SHIM_POOL_H

#include "shim/text.h"

/* An entry of the scoreboard: one worker, as fpm_get_status shows it. */
typedef struct {
    uint64_t pid, requests, memory, since_ns, started_ns, body_len, last_cpu_us, last_took_ns;
    const char *state;
    shim_text method, uri, script, user;
} shim_scoreboard_entry;

/* A pool of php-fpm's kind; without a manager (0) there is no such pool. */
typedef struct {
    uint64_t manager, started, accepted, listen_queue, max_listen_queue, listen_queue_len;
    uint64_t max_active, max_children_reached, slow_requests;
} shim_pool;

_Static_assert(sizeof(shim_scoreboard_entry) == 136, "no padding in an entry");

void rust_pool(shim_pool *pool);
/* Worker number n of the pool; 0 when there are no more. */
int rust_scoreboard_entry(size_t n, shim_scoreboard_entry *entry);

#endif
