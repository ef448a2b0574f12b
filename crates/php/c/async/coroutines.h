/* Tokamak\Coroutine: what runs beside the handler of its request. */
#ifndef TOKAMAK_COROUTINES_H
#define TOKAMAK_COROUTINES_H

#include "async/promises.h"

extern zend_class_entry *coroutines_awaitable;

/* At module start-up. */
void coroutines_install(void);
/* In async mode, and within a request: begins when the one that runs waits. Elsewhere it has run
 * when this returns. May throw. */
void coroutines_begin(zval *made, zend_fcall_info *fci, zend_fcall_info_cache *fcc);
/* The inside of an object that is Awaitable. */
promise *coroutines_promise(zend_object *object);
/* Interrupts what it waits for, now or next, by this exception; NULL: by one of ours. Nothing if it
 * is over, or no coroutine. */
void coroutines_cancel(zend_object *object, zend_object *reason);
/* The handler has returned: none of its coroutines is left afterwards. */
void coroutines_end(bool cancel);
/* Says in the log which exceptions of the request's coroutines nobody has awaited. */
void coroutines_report(void);
/* Of a coroutine that is not over: what it calls, and where that is. */
zend_string *coroutines_name(const promise *p);

#endif
