/* Tokamak\Coroutine and Tokamak\Deferred as PHP sees them: their classes, and the interface of
 * both.
 */
#include "async/awaitables.h"
#include "async/cancellation.h"
#include "async/coroutines.h"

zend_class_entry *awaitables_class;

static zend_class_entry *deferred_class;
static zend_object_handlers coroutine_handlers, deferred_handlers;

/* A promise that the program keeps or breaks itself. */
typedef struct {
    promise promise; /* the first */
    zend_object std;
} deferred;

promise *awaitables_promise(zend_object *object)
{
    return object->ce == coroutines_class
               ? &coroutines_of(object)->promise
               : &((deferred *)((char *)object - XtOffsetOf(deferred, std)))->promise;
}

static zend_object *make_coroutine(zend_class_entry *class)
{
    coroutine *c = zend_object_alloc(sizeof(*c), class);

    zend_object_std_init(&c->std, class);
    object_properties_init(&c->std, class);
    c->std.handlers = &coroutine_handlers;
    return &c->std;
}

static zend_object *make_deferred(zend_class_entry *class)
{
    deferred *d = zend_object_alloc(sizeof(*d), class);

    zend_object_std_init(&d->std, class);
    object_properties_init(&d->std, class);
    d->std.handlers = &deferred_handlers;
    return &d->std;
}

static void free_object(zend_object *object)
{
    promise *p = awaitables_promise(object);

    if (p->before) {
        coroutines_report_one(p);
    }
    promise_free(p);
    if (object->ce == coroutines_class) {
        coroutines_free_call(coroutines_of(object));
    }
    zend_object_std_dtor(object);
}

static HashTable *values_of(zend_object *object, zval **table, int *n)
{
    zend_get_gc_buffer *values = zend_get_gc_buffer_create();
    promise *p = awaitables_promise(object);

    zend_get_gc_buffer_add_zval(values, &p->result);
    if (p->exception) {
        zend_get_gc_buffer_add_obj(values, p->exception);
    }
    if (object->ce == coroutines_class) {
        coroutine *c = coroutines_of(object);
        zend_get_gc_buffer_add_zval(values, &c->callable);
        for (uint32_t i = 0; i < c->argument_count; i++) {
            zend_get_gc_buffer_add_zval(values, &c->arguments[i]);
        }
    }
    zend_get_gc_buffer_use(values, table, n);
    return zend_std_get_properties(object);
}

static zend_function *no_constructor(zend_object *object)
{
    zend_throw_error(NULL, "Tokamak\\Coroutine cannot be made by new: call Tokamak\\async()");
    return NULL;
}

ZEND_METHOD(Tokamak_Coroutine, isCompleted)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_BOOL(awaitables_promise(Z_OBJ_P(ZEND_THIS))->outcome != PROMISE_PENDING);
}

ZEND_METHOD(Tokamak_Coroutine, isCancelled)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_BOOL(coroutines_is_cancelled(coroutines_of(Z_OBJ_P(ZEND_THIS))));
}

ZEND_METHOD(Tokamak_Coroutine, cancel)
{
    zend_object *reason = NULL;

    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_OBJ_OF_CLASS_OR_NULL(reason, cancellation_error)
    ZEND_PARSE_PARAMETERS_END();
    coroutines_cancel(Z_OBJ_P(ZEND_THIS), reason);
}

static promise *pending(zend_object *object)
{
    promise *p = awaitables_promise(object);

    if (p->outcome != PROMISE_PENDING) {
        zend_throw_error(NULL, "this Tokamak\\Deferred is completed already");
        return NULL;
    }
    return p;
}

ZEND_METHOD(Tokamak_Deferred, complete)
{
    zval *value = NULL, nothing;
    promise *p;

    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_ZVAL(value)
    ZEND_PARSE_PARAMETERS_END();
    ZVAL_NULL(&nothing);
    if ((p = pending(Z_OBJ_P(ZEND_THIS)))) {
        promise_fulfill(p, value ? value : &nothing);
    }
}

ZEND_METHOD(Tokamak_Deferred, error)
{
    zend_object *exception;
    promise *p;

    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_OBJ_OF_CLASS(exception, zend_ce_throwable)
    ZEND_PARSE_PARAMETERS_END();
    if ((p = pending(Z_OBJ_P(ZEND_THIS)))) {
        GC_ADDREF(exception);
        promise_reject(p, exception);
    }
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_question, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_cancel, 0, 0, IS_VOID, 0)
    ZEND_ARG_OBJ_INFO_WITH_DEFAULT_VALUE(0, reason, Tokamak\\CancellationError, 1, "null")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_complete, 0, 0, IS_VOID, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, value, IS_MIXED, 0, "null")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_error, 0, 1, IS_VOID, 0)
    ZEND_ARG_OBJ_INFO(0, exception, Throwable, 0)
ZEND_END_ARG_INFO()

static const zend_function_entry coroutine_methods[] = {
    ZEND_ME(Tokamak_Coroutine, isCompleted, arginfo_question, ZEND_ACC_PUBLIC)
    ZEND_ME(Tokamak_Coroutine, isCancelled, arginfo_question, ZEND_ACC_PUBLIC)
    ZEND_ME(Tokamak_Coroutine, cancel, arginfo_cancel, ZEND_ACC_PUBLIC)
    ZEND_FE_END
};

static const zend_function_entry deferred_methods[] = {
    ZEND_MALIAS(Tokamak_Coroutine, isCompleted, isCompleted, arginfo_question, ZEND_ACC_PUBLIC)
    ZEND_ME(Tokamak_Deferred, complete, arginfo_complete, ZEND_ACC_PUBLIC)
    ZEND_ME(Tokamak_Deferred, error, arginfo_error, ZEND_ACC_PUBLIC)
    ZEND_FE_END
};

static zend_class_entry *add_class(const char *name, const zend_function_entry *methods,
                                   zend_object *(*make)(zend_class_entry *class),
                                   zend_object_handlers *handlers, size_t offset)
{
    zend_class_entry class, *added;

    INIT_CLASS_ENTRY_EX(class, name, strlen(name), methods);
    added = zend_register_internal_class(&class);
    added->ce_flags |= ZEND_ACC_FINAL | ZEND_ACC_NO_DYNAMIC_PROPERTIES | ZEND_ACC_NOT_SERIALIZABLE;
    added->create_object = make;
    zend_class_implements(added, 1, awaitables_class);
    memcpy(handlers, zend_get_std_object_handlers(), sizeof(*handlers));
    handlers->offset = (int)offset;
    handlers->free_obj = free_object;
    handlers->get_gc = values_of;
    handlers->clone_obj = NULL;
    return added;
}

/* Whether one of ours implements it: nothing else has a promise inside. */
static int may_be_awaitable(zend_class_entry *interface, zend_class_entry *class)
{
    if (class->type == ZEND_INTERNAL_CLASS) {
        return SUCCESS;
    }
    zend_error_noreturn(E_ERROR, "%s cannot implement Tokamak\\Awaitable: use Tokamak\\Deferred",
                        ZSTR_VAL(class->name));
}

void awaitables_install(void)
{
    zend_class_entry class;

    INIT_CLASS_ENTRY(class, "Tokamak\\Awaitable", NULL);
    awaitables_class = zend_register_internal_interface(&class);
    awaitables_class->interface_gets_implemented = may_be_awaitable;
    INIT_CLASS_ENTRY(class, "Tokamak\\CancellationError", NULL);
    cancellation_error = zend_register_internal_class_ex(&class, zend_ce_error);
    coroutines_class = add_class("Tokamak\\Coroutine", coroutine_methods, make_coroutine,
                                &coroutine_handlers, XtOffsetOf(coroutine, std));
    coroutine_handlers.get_constructor = no_constructor;
    deferred_class = add_class("Tokamak\\Deferred", deferred_methods, make_deferred,
                               &deferred_handlers, XtOffsetOf(deferred, std));
}
