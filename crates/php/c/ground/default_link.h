/* The connection that calls of pgsql mean that name none. */
#ifndef TOKAMAK_DEFAULT_LINK_H
#define TOKAMAK_DEFAULT_LINK_H

#include "ground/state.h"

/* Before a script runs. */
void default_link_watch(void);
/* The script's, when its loop begins. */
void default_link_learn(void);
/* After a request: the script's is in place again. */
void default_link_restore(void);
void default_link_forget(void);
/* In async mode: what is in place is the request's, and goes with it. NULL: none. */
zend_object *default_link_take(void);
void default_link_give(zend_object *link);

#endif
