/* How async mode makes Fibers, and calls their methods. */
#ifndef TOKAMAK_FIBERS_MAKING_H
#define TOKAMAK_FIBERS_MAKING_H

#include "ground/compat.h"

#include <Zend/zend_fibers.h>

/* The function of a Fiber, by the name that backtraces have for it; release the name. */
void fibers_make_function(zend_internal_function *made, const char *name, zif_handler handler);
/* A Fiber is made and entered; returns when it awaits work. May throw. */
void fibers_make(zval *object, zend_internal_function *function);
/* In the script's context. Calls a method of a Fiber; returns when it waits for something, is over,
 * or suspends itself. */
void fibers_call(zend_fiber *fiber, const char *method, zval *argument);

#endif
