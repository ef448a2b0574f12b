/* Tokamak\Context: values of one request, and what is to be known of it.
 *
 * Coroutines and Fibers of a request have the state of their request, so they have its values too.
 * They go before the response is complete: destructors may still print, and a pool gets back what
 * it has lent.
 */
#include <inttypes.h>

#include "async/context.h"
#include "async/cancellation.h"
#include "async/reactor.h"
#include "ground/state.h"

/* How often destructors of values may set new ones. */
enum { MOST_ROUNDS = 8 };

void context_forget(void)
{
    for (int round = 0; serving->context && round < MOST_ROUNDS; round++) {
        HashTable *values = serving->context;

        serving->context = NULL;
        zend_array_destroy(values);
    }
}

ZEND_METHOD(Tokamak_Context, get)
{
    zend_string *key;
    zval *otherwise = NULL, *value;

    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STR(key)
        Z_PARAM_OPTIONAL
        Z_PARAM_ZVAL(otherwise)
    ZEND_PARSE_PARAMETERS_END();
    value = serving->context ? zend_symtable_find(serving->context, key) : NULL;
    if (value || otherwise) {
        RETURN_COPY(value ? value : otherwise);
    }
}

ZEND_METHOD(Tokamak_Context, set)
{
    zend_string *key;
    zval *value;

    ZEND_PARSE_PARAMETERS_START(2, 2)
        Z_PARAM_STR(key)
        Z_PARAM_ZVAL(value)
    ZEND_PARSE_PARAMETERS_END();
    if (!serving->context) {
        serving->context = zend_new_array(8);
    }
    Z_TRY_ADDREF_P(value);
    zend_symtable_update(serving->context, key, value);
}

ZEND_METHOD(Tokamak_Context, has)
{
    zend_string *key;

    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(key)
    ZEND_PARSE_PARAMETERS_END();
    RETURN_BOOL(serving->context && zend_symtable_exists(serving->context, key));
}

ZEND_METHOD(Tokamak_Context, unset)
{
    zend_string *key;

    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(key)
    ZEND_PARSE_PARAMETERS_END();
    if (serving->context) {
        zend_symtable_del(serving->context, key);
    }
}

/* Outside of a request, and while sealed mode warms up, it has none. */
ZEND_METHOD(Tokamak_Context, id)
{
    const shim_request *request = serving->request;

    ZEND_PARSE_PARAMETERS_NONE();
    if (!request || request->begun == 0) {
        RETURN_EMPTY_STRING();
    }
    /* As RequestId writes it, of crates/cost. */
    RETURN_STR(strpprintf(0, "%016" PRIx64 "%08" PRIx32, request->begun, request->ticket));
}

ZEND_METHOD(Tokamak_Context, deadline)
{
    const shim_request *request = serving->request;
    struct timespec now;

    ZEND_PARSE_PARAMETERS_NONE();
    if (!request || request->due == REACTOR_FOREVER) {
        RETURN_NULL();
    }
    clock_gettime(CLOCK_REALTIME, &now);
    RETURN_DOUBLE((double)now.tv_sec + (double)now.tv_nsec / 1e9 +
                  (double)((int64_t)(request->due - reactor_now())) / 1e9);
}

ZEND_METHOD(Tokamak_Context, isCancelled)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_BOOL(cancellation_is_due());
}

ZEND_METHOD(Tokamak_Context, throwIfCancelled)
{
    ZEND_PARSE_PARAMETERS_NONE();
    if (cancellation_is_due()) {
        cancellation_begin_here();
    }
}

static zend_function *no_constructor(zend_object *object)
{
    zend_throw_error(NULL, "Tokamak\\Context cannot be made by new: call its static methods");
    return NULL;
}

static zend_object_handlers handlers;

static zend_object *make(zend_class_entry *class)
{
    zend_object *object = zend_objects_new(class);

    object->handlers = &handlers;
    return object;
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_get, 0, 1, IS_MIXED, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, default, IS_MIXED, 0, "null")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_set, 0, 2, IS_VOID, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, value, IS_MIXED, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_has, 0, 1, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_unset, 0, 1, IS_VOID, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_id, 0, 0, IS_STRING, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_deadline, 0, 0, IS_DOUBLE, 1)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_is_cancelled, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_throw_if_cancelled, 0, 0, IS_VOID, 0)
ZEND_END_ARG_INFO()

#define STATIC (ZEND_ACC_PUBLIC | ZEND_ACC_STATIC)

static const zend_function_entry methods[] = {
    ZEND_ME(Tokamak_Context, get, arginfo_get, STATIC)
    ZEND_ME(Tokamak_Context, set, arginfo_set, STATIC)
    ZEND_ME(Tokamak_Context, has, arginfo_has, STATIC)
    ZEND_ME(Tokamak_Context, unset, arginfo_unset, STATIC)
    ZEND_ME(Tokamak_Context, id, arginfo_id, STATIC)
    ZEND_ME(Tokamak_Context, deadline, arginfo_deadline, STATIC)
    ZEND_ME(Tokamak_Context, isCancelled, arginfo_is_cancelled, STATIC)
    ZEND_ME(Tokamak_Context, throwIfCancelled, arginfo_throw_if_cancelled, STATIC)
    ZEND_FE_END
};

void context_install(void)
{
    zend_class_entry class, *added;

    INIT_CLASS_ENTRY(class, "Tokamak\\Context", methods);
    added = zend_register_internal_class(&class);
    added->ce_flags |= ZEND_ACC_FINAL | ZEND_ACC_NO_DYNAMIC_PROPERTIES | ZEND_ACC_NOT_SERIALIZABLE;
    added->create_object = make;
    memcpy(&handlers, zend_get_std_object_handlers(), sizeof(handlers));
    handlers.get_constructor = no_constructor;
}
