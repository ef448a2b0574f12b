/* Persistent connections of mysqli ("p:"), which are in no list while a value holds them. */
#ifndef TOKAMAK_PERSISTENT_MYSQLI_H
#define TOKAMAK_PERSISTENT_MYSQLI_H

#include "ground/state.h"

/* Shows each object of the boot that holds one: where its pointer to the connection is, and the
 * name of the pool to which the connection goes back. */
void persistent_mysqli_visit(void (*visit)(const void **at, const zend_string *pool,
                                           zend_object *holder));
/* Takes a free connection out of a pool of PHP's list; NULL: there is none. */
const void *persistent_mysqli_take(void *pool);

#endif
