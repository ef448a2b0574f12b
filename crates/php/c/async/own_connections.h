/* Persistent connections of async mode. */
#ifndef TOKAMAK_OWN_CONNECTIONS_H
#define TOKAMAK_OWN_CONNECTIONS_H

typedef struct own_connections own_connections;

/* A list for the requests that are served one after the other in one place, or for a coroutine.
 * NULL: no memory. */
own_connections *own_connections_make(void);
/* It is not used any more; the next who asks gets it. */
void own_connections_free(own_connections *own);
/* Who has it comes, or goes. */
void own_connections_exchange(own_connections *own);

#endif
