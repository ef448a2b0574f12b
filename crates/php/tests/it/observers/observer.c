/* An extension that observes what profilers and tracers do: each function from its beginning to its
 * end, and each Fiber. It keeps a list of the functions that run in each Fiber, and counts what
 * ends out of turn. crates/php/tests/it/observers.rs compiles it. */
#include <main/php.h>
#include <Zend/zend_fibers.h>
#include <Zend/zend_observer.h>

enum { MOST_FIBERS = 512, MOST_DEEP = 64 };

typedef struct {
    const zend_fiber_context *context; /* NULL: the place is free */
    int depth;
    const zend_execute_data *frames[MOST_DEEP];
    const char *names[MOST_DEEP];
} fiber_calls;

static struct {
    fiber_calls of[MOST_FIBERS];
    const zend_fiber_context *runs; /* as the switches say */
    zend_long begun, ended, wrong, switches;
} seen;

static fiber_calls *calls_of(const zend_fiber_context *context)
{
    fiber_calls *free = NULL;

    for (int i = 0; i < MOST_FIBERS; i++) {
        if (seen.of[i].context == context) {
            return &seen.of[i];
        }
        if (!free && !seen.of[i].context) {
            free = &seen.of[i];
        }
    }
    if (free) {
        free->context = context;
        free->depth = 0;
    }
    return free;
}

static void on_begin(zend_execute_data *frame)
{
    fiber_calls *calls = calls_of(EG(current_fiber_context));
    const zend_string *name = frame->func->common.function_name;

    seen.begun++;
    if (!calls || calls->depth == MOST_DEEP) {
        seen.wrong++;
        return;
    }
    calls->frames[calls->depth] = frame;
    calls->names[calls->depth++] = name ? ZSTR_VAL(name) : "file";
}

static void on_end(zend_execute_data *frame, zval *result)
{
    fiber_calls *calls = calls_of(EG(current_fiber_context));

    (void)result;
    seen.ended++;
    if (!calls || calls->depth == 0 || calls->frames[--calls->depth] != frame) {
        seen.wrong++;
    }
}

static zend_observer_fcall_handlers observe(zend_execute_data *frame)
{
    const zend_observer_fcall_handlers all = {on_begin, on_end}, none = {NULL, NULL};

    return frame->func->type == ZEND_USER_FUNCTION ? all : none;
}

static void on_switch(zend_fiber_context *from, zend_fiber_context *to)
{
    seen.switches++;
    if (seen.runs && seen.runs != from) {
        seen.wrong++;
    }
    seen.runs = to;
}

static void on_destroy(zend_fiber_context *context)
{
    fiber_calls *calls = calls_of(context);

    if (calls) {
        seen.wrong += calls->depth;
        calls->context = NULL;
    }
}

/* What runs in this Fiber, the outermost first. */
static ZEND_FUNCTION(observed_calls)
{
    const fiber_calls *calls = calls_of(EG(current_fiber_context));

    ZEND_PARSE_PARAMETERS_NONE();
    array_init(return_value);
    for (int i = 0; calls && i < calls->depth; i++) {
        add_next_index_string(return_value, calls->names[i]);
    }
}

static ZEND_FUNCTION(observed_counts)
{
    ZEND_PARSE_PARAMETERS_NONE();
    array_init(return_value);
    add_assoc_long(return_value, "begun", seen.begun);
    add_assoc_long(return_value, "ended", seen.ended);
    add_assoc_long(return_value, "wrong", seen.wrong);
    add_assoc_long(return_value, "switches", seen.switches);
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_array, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

static const zend_function_entry functions[] = {
    ZEND_FE(observed_calls, arginfo_array)
    ZEND_FE(observed_counts, arginfo_array)
    ZEND_FE_END
};

static PHP_MINIT_FUNCTION(observer)
{
    (void)type;
    (void)module_number;
    zend_observer_fcall_register(observe);
    zend_observer_fiber_switch_register(on_switch);
    zend_observer_fiber_destroy_register(on_destroy);
    return SUCCESS;
}

zend_module_entry observer_module_entry = {
    STANDARD_MODULE_HEADER, "observer", functions, PHP_MINIT(observer), NULL, NULL, NULL, NULL, "1",
    STANDARD_MODULE_PROPERTIES};

ZEND_GET_MODULE(observer)
