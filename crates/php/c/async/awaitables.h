/* Tokamak\Coroutine and Tokamak\Deferred as PHP sees them. */
#ifndef TOKAMAK_AWAITABLES_H
#define TOKAMAK_AWAITABLES_H

#include "async/promises.h"

/* Tokamak\Awaitable, the interface. */
extern zend_class_entry *awaitables_class;

/* At module start-up. */
void awaitables_install(void);
/* The inside of an object that is Awaitable. */
promise *awaitables_promise(zend_object *object);

#endif
