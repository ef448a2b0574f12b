/* Tokamak\Coroutine: what runs beside the handler of its request. */
#ifndef TOKAMAK_COROUTINES_H
#define TOKAMAK_COROUTINES_H

#include "async/promises.h"

typedef struct {
    promise promise; /* the first */
    zval callable;
    zend_fcall_info_cache fcc;
    uint32_t argument_count;
    zval *arguments;
    bool is_cancelled;
    zend_object std;
} coroutine;

/* Tokamak\Coroutine. */
extern zend_class_entry *coroutines_class;

coroutine *coroutines_of(zend_object *object);
/* In async mode, and within a request: begins when the one that runs waits. Elsewhere it has run
 * when this returns. May throw. */
void coroutines_begin(zval *made, zend_fcall_info *fci, zend_fcall_info_cache *fcc);
/* Interrupts what it waits for, now or next, by this exception; NULL: by one of ours. Nothing if it
 * is over, or no coroutine. */
void coroutines_cancel(zend_object *object, zend_object *reason);
/* The handler has returned: none of its coroutines is left afterwards. */
void coroutines_end(bool cancel);
/* Whether it was cancelled by itself, or with its request. */
bool coroutines_is_cancelled(const coroutine *c);
/* What it calls, and with which arguments, is needed no more. */
void coroutines_free_call(coroutine *c);
/* Logs the exceptions of the request's coroutines that were not awaited. */
void coroutines_report(void);
/* The same of one that has failed, if it is still to be said. */
void coroutines_report_one(promise *p);
/* Of a coroutine that is not over: what it calls, and where that is. */
zend_string *coroutines_name(const promise *p);

#endif
