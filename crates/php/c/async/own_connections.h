/* Persistent connections of async mode. */
#ifndef TOKAMAK_OWN_CONNECTIONS_H
#define TOKAMAK_OWN_CONNECTIONS_H

#include <Zend/zend_fibers.h>
#include <main/php.h>

typedef struct own_connections own_connections;

/* A list for the requests that are served one after the other in one place, or for a coroutine.
 * NULL: no memory. */
own_connections *own_connections_make(void);
/* It is not used any more; the next who asks gets it. */
void own_connections_free(own_connections *own);
/* The request that has it comes, or goes. */
void own_connections_exchange(own_connections *own);

/* A coroutine with this list begins to run, or goes on (NULL: one without a list). The one that
 * runs stops: returns its list, or NULL. Only while its request is there. */
void own_connections_enter(own_connections *own);
own_connections *own_connections_leave(void);
/* Around a switch to a context of another request, while the request of each is there. */
void own_connections_note_left(const zend_fiber_context *from);
void own_connections_note_entered(const zend_fiber_context *to);

/* What _php_stream_free() is called for. */
void own_connections_note_freed(const php_stream *stream, int options);

#endif
