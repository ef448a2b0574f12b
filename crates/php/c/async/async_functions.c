/* Tokamak\async() and what goes with it. They are there in every mode, and do the same work: see
 * coroutines.c. */
#include "async/async_functions.h"
#include "async/awaitables.h"
#include "async/coroutines.h"
#include "async/fibers.h"
#include "async/parts.h"
#include "async/reactor.h"

#define SECOND 1e9

static zend_class_entry *timeout_class, *deadlock_class;

/* The point in time so many seconds from now. */
static uint64_t deadline_of(double seconds, bool is_forever)
{
    const uint64_t now = reactor_now();

    if (is_forever || seconds * SECOND >= (double)(REACTOR_FOREVER - now)) {
        return REACTOR_FOREVER;
    }
    return now + (uint64_t)(seconds * SECOND);
}

/* True: it has thrown. NAN is no time either. */
static bool is_no_time(double seconds)
{
    if (seconds >= 0) {
        return false;
    }
    zend_argument_value_error(2, "must be 0 or greater");
    return true;
}

/* A coroutine awaits itself, or a circle of them each other. */
static void throw_circle(promise **some, size_t count)
{
    promise *awaited = promises_circle(some, count);
    zend_string *name = coroutines_name(awaited);

    zend_throw_error(deadlock_class, "what is awaited cannot come: the coroutine %s %s",
                     ZSTR_VAL(name),
                     awaited->made_in == parts_running() ? "awaits itself"
                                                         : "awaits the one that awaits it here");
    zend_string_release(name);
}

/* Waits for some of them; whether there is an outcome, or else an exception. */
static bool await(promise **some, size_t count, promises_goal goal, double seconds,
                  bool is_forever)
{
    const promises_wait end = promises_await(some, count, goal, deadline_of(seconds, is_forever));

    if (EG(exception)) {
        return false;
    }
    switch (end) {
    case PROMISES_LATE:
        zend_throw_exception_ex(timeout_class, 0, "nothing came within %g s", seconds);
        return false;
    case PROMISES_STUCK:
        zend_throw_error(deadlock_class,
                         "what is awaited cannot come, because nothing else can run here: outside "
                         "of async mode's requests, in an autoloader, in the callback of an output "
                         "buffer");
        return false;
    case PROMISES_CIRCLE:
        throw_circle(some, count);
        return false;
    default:
        return true;
    }
}

static void return_outcome(promise *p, zval *return_value)
{
    if (p->outcome == PROMISE_REJECTED) {
        p->is_seen = true;
        GC_ADDREF(p->exception);
        zend_throw_exception_internal(p->exception);
    } else {
        RETVAL_COPY(&p->result);
    }
}

ZEND_FUNCTION(tokamak_async)
{
    zend_fcall_info fci;
    zend_fcall_info_cache fcc;

    ZEND_PARSE_PARAMETERS_START(1, -1)
        Z_PARAM_FUNC(fci, fcc)
        Z_PARAM_VARIADIC('*', fci.params, fci.param_count)
    ZEND_PARSE_PARAMETERS_END();
    coroutines_begin(return_value, &fci, &fcc);
}

ZEND_FUNCTION(tokamak_await)
{
    zend_object *object;
    double seconds = 0;
    bool is_forever = true;
    promise *p;

    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_OBJ_OF_CLASS(object, awaitables_class)
        Z_PARAM_OPTIONAL
        Z_PARAM_DOUBLE_OR_NULL(seconds, is_forever)
    ZEND_PARSE_PARAMETERS_END();
    if (is_no_time(seconds)) {
        RETURN_THROWS();
    }
    p = awaitables_promise(object);
    GC_ADDREF(object);
    if (await(&p, 1, PROMISES_ALL, seconds, is_forever)) {
        return_outcome(p, return_value);
    }
    OBJ_RELEASE(object);
}

/* ---- several at once ---- */

typedef struct {
    HashTable *objects; /* with the keys that they were given by */
    promise **promises;
    size_t count;
} bunch;

/* A callable is begun. False: it has thrown. */
static bool add(bunch *b, zend_ulong index, zend_string *key, zval *item)
{
    zend_fcall_info fci;
    zend_fcall_info_cache fcc;
    zval object;

    if (Z_TYPE_P(item) == IS_OBJECT && instanceof_function(Z_OBJCE_P(item), awaitables_class)) {
        ZVAL_COPY(&object, item);
    } else if (zend_fcall_info_init(item, 0, &fci, &fcc, NULL, NULL) == SUCCESS) {
        coroutines_begin(&object, &fci, &fcc);
    } else {
        zend_type_error("each item must be callable or a Tokamak\\Awaitable, one is %s",
                        zend_zval_type_name(item));
        return false;
    }
    b->promises[b->count++] = awaitables_promise(Z_OBJ(object));
    if (key) {
        zend_hash_update(b->objects, key, &object);
    } else {
        zend_hash_index_update(b->objects, index, &object);
    }
    return !EG(exception);
}

static bool gather(bunch *b, HashTable *items)
{
    const size_t count = zend_hash_num_elements(items);
    zend_ulong index;
    zend_string *key;
    zval *item;

    b->objects = zend_new_array((uint32_t)count);
    b->promises = safe_emalloc(count + 1, sizeof(promise *), 0);
    b->count = 0;
    ZEND_HASH_FOREACH_KEY_VAL(items, index, key, item) {
        ZVAL_DEREF(item);
        if (!add(b, index, key, item)) {
            return false;
        }
    } ZEND_HASH_FOREACH_END();
    return true;
}

/* Waits until those that are not over have cleaned up, so that what they have used is free: a
 * connection, say. Not for what has caught its CancellationError and goes on. */
static void await_cancelled(bunch *b)
{
    zend_object *thrown = EG(exception);
    size_t left = 0;

    for (size_t i = 0; i < b->count; i++) {
        const part *made_in = b->promises[i]->made_in;

        if (made_in && made_in != parts_running()) {
            b->promises[left++] = b->promises[i];
        }
    }
    if (left == 0 || (thrown && zend_is_unwind_exit(thrown))) {
        return;
    }
    EG(exception) = NULL;
    promises_await(b->promises, left, PROMISES_EACH, reactor_now() + PARTS_GRACE);
    if (thrown && EG(exception) && zend_is_unwind_exit(EG(exception))) {
        OBJ_RELEASE(thrown);
    } else if (thrown) {
        zend_clear_exception();
        EG(exception) = thrown;
    }
}

/* Ends those that are not over: their results are not needed any more. */
static void scatter(bunch *b)
{
    zval *object;

    ZEND_HASH_FOREACH_VAL(b->objects, object) {
        coroutines_cancel(Z_OBJ_P(object), NULL);
    } ZEND_HASH_FOREACH_END();
    await_cancelled(b);
    zend_array_destroy(b->objects);
    efree(b->promises);
}

static void return_results(bunch *b, zval *return_value)
{
    zend_ulong index;
    zend_string *key;
    zval *object;

    array_init_size(return_value, (uint32_t)b->count);
    ZEND_HASH_FOREACH_KEY_VAL(b->objects, index, key, object) {
        zval *result = &awaitables_promise(Z_OBJ_P(object))->result;

        Z_TRY_ADDREF_P(result);
        if (key) {
            zend_hash_update(Z_ARR_P(return_value), key, result);
        } else {
            zend_hash_index_update(Z_ARR_P(return_value), index, result);
        }
    } ZEND_HASH_FOREACH_END();
}

/* The one that decides: rejected, or (for a race) fulfilled; NULL: there is none. */
static promise *decisive(bunch *b, bool for_all)
{
    for (size_t i = 0; i < b->count; i++) {
        promise_outcome outcome = b->promises[i]->outcome;
        if (outcome == PROMISE_REJECTED || (outcome == PROMISE_FULFILLED && !for_all)) {
            return b->promises[i];
        }
    }
    return NULL;
}

static void await_several(bool for_all, INTERNAL_FUNCTION_PARAMETERS)
{
    const promises_goal goal = for_all ? PROMISES_ALL : PROMISES_FIRST;
    HashTable *items;
    double seconds = 0;
    bool is_forever = true;
    bunch b;

    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_ARRAY_HT(items)
        Z_PARAM_OPTIONAL
        Z_PARAM_DOUBLE_OR_NULL(seconds, is_forever)
    ZEND_PARSE_PARAMETERS_END();
    if (is_no_time(seconds)) {
        RETURN_THROWS();
    }
    if (!for_all && zend_hash_num_elements(items) == 0) {
        zend_argument_value_error(1, "must not be empty");
        RETURN_THROWS();
    }
    if (gather(&b, items) && await(b.promises, b.count, goal, seconds, is_forever)) {
        promise *first = decisive(&b, for_all);

        if (first) {
            return_outcome(first, return_value);
        } else {
            return_results(&b, return_value);
        }
    }
    scatter(&b);
}

ZEND_FUNCTION(tokamak_all)
{
    await_several(true, INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

ZEND_FUNCTION(tokamak_race)
{
    await_several(false, INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* For RevoltDriver.php, and not for applications. */
ZEND_FUNCTION(tokamak_is_outermost)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_BOOL(fibers_is_outermost());
}

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_async, 0, 1, Tokamak\\Coroutine, 0)
    ZEND_ARG_TYPE_INFO(0, task, IS_CALLABLE, 0)
    ZEND_ARG_VARIADIC_TYPE_INFO(0, args, IS_MIXED, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_await, 0, 1, IS_MIXED, 0)
    ZEND_ARG_OBJ_INFO(0, awaitable, Tokamak\\Awaitable, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, seconds, IS_DOUBLE, 1, "null")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_all, 0, 1, IS_ARRAY, 0)
    ZEND_ARG_TYPE_INFO(0, tasks, IS_ARRAY, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, seconds, IS_DOUBLE, 1, "null")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_race, 0, 1, IS_MIXED, 0)
    ZEND_ARG_TYPE_INFO(0, tasks, IS_ARRAY, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, seconds, IS_DOUBLE, 1, "null")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_is_outermost, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()

static const zend_function_entry functions[] = {
    ZEND_NS_NAMED_FE("Tokamak", async, ZEND_FN(tokamak_async), arginfo_async)
    ZEND_NS_NAMED_FE("Tokamak", await, ZEND_FN(tokamak_await), arginfo_await)
    ZEND_NS_NAMED_FE("Tokamak", all, ZEND_FN(tokamak_all), arginfo_all)
    ZEND_NS_NAMED_FE("Tokamak", race, ZEND_FN(tokamak_race), arginfo_race)
    ZEND_NS_NAMED_FE("Tokamak", is_outermost, ZEND_FN(tokamak_is_outermost), arginfo_is_outermost)
    ZEND_FE_END
};

void async_functions_install(void)
{
    zend_class_entry class;

    awaitables_install();
    INIT_CLASS_ENTRY(class, "Tokamak\\TimeoutException", NULL);
    timeout_class = zend_register_internal_class_ex(&class, spl_ce_RuntimeException);
    INIT_CLASS_ENTRY(class, "Tokamak\\DeadlockError", NULL);
    deadlock_class = zend_register_internal_class_ex(&class, zend_ce_error);
    zend_register_functions(NULL, functions, NULL, MODULE_PERSISTENT);
}
