/* Fatal errors of requests of async mode. */
#ifndef TOKAMAK_FATAL_ERRORS_H
#define TOKAMAK_FATAL_ERRORS_H

#include <php.h>

/* After module start-up. */
void fatal_errors_watch(void);
/* In place of zend_objects_store_mark_destructed(), which PHP calls at a fatal error. */
void fatal_errors_mark_destructed(zend_objects_store *objects);
/* The loop has ended, and all requests with it. */
void fatal_errors_end(void);

#endif
