/* Which request a context of async mode belongs to. */
#ifndef TOKAMAK_FIBER_TAGS_H
#define TOKAMAK_FIBER_TAGS_H

#include <stdbool.h>
#include <stdint.h>

#include <Zend/zend_fibers.h>

#include "ground/state.h"

/* Contexts whose request has ended, those of Fibers kept in a static variable say. Each is two
 * mappings of the 65 530 that the kernel allows a process, and some 30 kB. A tenth of it would be
 * too few for a library that uses its Fibers again; ten times more, too many for most memory
 * limits. */
enum { FIBER_TAGS_MOST_STALE = 1000 };

/* A place for requests, one after the other: what contexts belong to. */
typedef struct {
    request_state *of;    /* the one that has the place */
    uintptr_t generation; /* counts those requests */
    size_t count;         /* contexts of the one that has the place now */
} fiber_owner;

/* After module start-up. False: PHP has no place for tags. */
bool fiber_tags_watch(void);
/* The number of one of them. Functions have places of the same numbers, where it is free for others
 * of ours. -1: PHP has none. */
int fiber_tags_place(void);
/* When the loop begins: there are no tags. */
void fiber_tags_reset(void);
/* A context is made: it has no request. */
void fiber_tags_begin(zend_fiber_context *made);
/* NULL: it has no request, and runs with the state of the script. */
request_state *fiber_tags_request(const zend_fiber_context *context);
void fiber_tags_put(zend_fiber_context *context, fiber_owner *owner);
/* Whether the request that it belongs to has ended. */
bool fiber_tags_is_stale(const zend_fiber_context *context);
/* The request has ended. How many contexts there are whose request has. */
size_t fiber_tags_end(fiber_owner *owner);

#endif
