/* Tokamak\Coroutine: what runs beside the handler of its request.
 *
 * In async mode a coroutine has a Fiber of its own within its request (child_fibers.c). None
 * outlives it: a handler that returns is followed by those that it has begun, and one that ends
 * otherwise takes them with it. Where others cannot run, in all other modes and outside of a
 * request, a coroutine is a call: so one program runs everywhere.
 *
 * An exception goes to the code that awaits it. One that was not awaited is written to the log,
 * when the object goes or when the request ends, whatever is first: in all modes.
 */
#include "async/coroutines.h"
#include "async/cancellation.h"
#include "async/child_fibers.h"
#include "async/fibers.h"
#include "async/fibers_parking.h"
#include "async/fibers_switching.h"
#include "async/own_connections.h"
#include "async/parts.h"
#include "async/reactor.h"
#include "ground/sapi.h"

zend_class_entry *coroutines_class;

coroutine *coroutines_of(zend_object *object)
{
    return (coroutine *)((char *)object - XtOffsetOf(coroutine, std));
}

/* ---- those of a request ---- */

static void list(promise *p, promise **head)
{
    p->next = *head;
    p->before = head;
    if (p->next) {
        p->next->before = &p->next;
    }
    *head = p;
}

static void unlist(promise *p)
{
    if (p->before) {
        *p->before = p->next;
        if (p->next) {
            p->next->before = p->before;
        }
        p->before = NULL;
    }
}

static void log_exception(zend_object *exception)
{
    zval text;

    zend_call_known_instance_method_with_0_params(exception->ce->__tostring, exception, &text);
    if (Z_TYPE(text) == IS_STRING) {
        zend_string *line =
            strpprintf(0, "a coroutine failed, and nobody awaits it: %s", Z_STRVAL(text));
        rust_log(SHIM_ERROR, ZSTR_VAL(line), ZSTR_LEN(line));
        zend_string_release(line);
    }
    zval_ptr_dtor(&text);
}

/* Also while another exception is on its way, which frees the coroutine. */
void coroutines_report_one(promise *p)
{
    const zend_op *opline = EG(opline_before_exception);
    zend_object *thrown = EG(exception);

    unlist(p);
    if (p->is_seen || cancellation_is_cause(p->exception)) {
        return;
    }
    p->is_seen = true;
    EG(exception) = NULL;
    log_exception(p->exception);
    if (EG(exception)) {
        OBJ_RELEASE(EG(exception));
    }
    EG(exception) = thrown;
    EG(opline_before_exception) = opline;
}

/* ---- its life ---- */

static zend_object *take_exception(void)
{
    zend_object *exception = EG(exception);

    GC_ADDREF(exception);
    zend_clear_exception();
    return exception;
}

/* What ends one of a request's coroutines like this ends its handler, too, and so the others. */
static void end_handler(bool whole)
{
    if (EG(exception)) {
        zend_clear_exception();
    }
    serving->is_broken |= !whole;
    parts_break(serving->handler, zend_create_unwind_exit());
}

/* False: a fatal error. */
static bool call(coroutine *c)
{
    zend_execute_data *frame = EG(current_execute_data);
    volatile bool whole = true;
    zval result;

    ZVAL_UNDEF(&result);
    zend_try {
        zend_fcall_info fci = {.size = sizeof(fci),
                               .retval = &result,
                               .param_count = c->argument_count,
                               .params = c->arguments};
        ZVAL_COPY_VALUE(&fci.function_name, &c->callable);
        zend_call_function(&fci, &c->fcc);
    } zend_catch {
        whole = false;
        fibers_forget_jump();
    } zend_end_try();
    EG(current_execute_data) = frame;
    if (COMPAT_OUT_OF_MEMORY()) {
        COMPAT_END_OUT_OF_MEMORY();
        whole = false;
    }
    if (whole && EG(exception) && !zend_is_unwind_exit(EG(exception))) {
        promise_reject(&c->promise, take_exception());
        return true;
    }
    if ((!whole || EG(exception)) && fibers_in_request()) {
        /* First, so that the handler does not go on if it awaits this one. */
        end_handler(whole);
    }
    if (Z_ISUNDEF(result)) {
        ZVAL_NULL(&result);
    }
    promise_fulfill(&c->promise, &result);
    zval_ptr_dtor(&result);
    return whole;
}

void coroutines_free_call(coroutine *c)
{
    zval_ptr_dtor(&c->callable);
    ZVAL_UNDEF(&c->callable);
    for (uint32_t i = 0; i < c->argument_count; i++) {
        zval_ptr_dtor(&c->arguments[i]);
    }
    c->argument_count = 0;
    if (c->arguments) {
        efree(c->arguments);
        c->arguments = NULL;
    }
}

/* Two coroutines that open a persistent connection are two who use one, as two requests are. */
static bool call_with_connections(coroutine *c)
{
    own_connections *own = own_connections_make();
    bool whole;

    if (!own) {
        return call(c);
    }
    own_connections_enter(own);
    whole = call(c);
    own_connections_leave();
    own_connections_free(own);
    return whole;
}

bool coroutines_is_cancelled(const coroutine *c)
{
    return c->is_cancelled || (c->promise.made_in && c->promise.made_in->is_let_be_until != 0);
}

/* In its Fiber. */
static bool run(void *of)
{
    coroutine *c = of;
    bool whole = true;

    if (c->promise.outcome == PROMISE_PENDING) {
        c->promise.made_in = parts_begin();
        whole = call_with_connections(c);
        sapi_leave_copy();
        c->is_cancelled = coroutines_is_cancelled(c);
        parts_end(c->promise.made_in);
        c->promise.made_in = NULL;
    }
    unlist(&c->promise);
    if (c->promise.outcome == PROMISE_REJECTED) {
        list(&c->promise, &serving->failed);
    }
    coroutines_free_call(c);
    OBJ_RELEASE(&c->std);
    if (EG(exception)) {
        zend_clear_exception();
    }
    if (!serving->children && serving->until_childless) {
        reactor_finish(serving->until_childless);
    }
    return whole;
}

void coroutines_begin(zval *made, zend_fcall_info *fci, zend_fcall_info_cache *fcc)
{
    coroutine *c;

    object_init_ex(made, coroutines_class);
    c = coroutines_of(Z_OBJ_P(made));
    ZVAL_COPY(&c->callable, &fci->function_name);
    c->fcc = *fcc;
    if (fci->param_count > 0) {
        c->arguments = safe_emalloc(fci->param_count, sizeof(zval), 0);
        for (; c->argument_count < fci->param_count; c->argument_count++) {
            ZVAL_COPY(&c->arguments[c->argument_count], &fci->params[c->argument_count]);
        }
    }
    if (!fibers_in_request() || serving->is_held) {
        /* At the end of a request nothing else of it runs: a destructor's coroutine neither. */
        if (!call(c)) {
            zend_bailout();
        }
        coroutines_free_call(c);
        if (c->promise.outcome == PROMISE_REJECTED) {
            list(&c->promise, &serving->failed);
        }
        return;
    }
    switch (child_fibers_begin(run, c)) {
    case CHILD_BEGUN:
        break;
    case CHILD_TOO_MANY:
        zend_throw_error(NULL, "Tokamak\\async(): 10000 coroutines of this worker are under way, "
                               "the most there may be: await some before you begin more");
        return;
    case CHILD_HAS_THROWN:
        return;
    }
    GC_ADDREF(&c->std);
    c->promise.of = serving;
    list(&c->promise, &serving->children);
}

void coroutines_cancel(zend_object *object, zend_object *reason)
{
    coroutine *c;
    zval made;

    if (object->ce != coroutines_class) {
        return;
    }
    c = coroutines_of(object);
    if (c->promise.outcome != PROMISE_PENDING || c->is_cancelled) {
        return;
    }
    c->is_cancelled = true;
    if (reason) {
        GC_ADDREF(reason);
    } else {
        object_init_ex(&made, cancellation_error);
        reason = Z_OBJ(made);
        zend_update_property_string(zend_ce_error, reason, ZEND_STRL("message"),
                                    "the coroutine is cancelled");
    }
    if (c->promise.made_in) {
        parts_cancel(c->promise.made_in, reason, reactor_now());
    } else {
        promise_reject(&c->promise, reason);
    }
}

void coroutines_end(bool cancel)
{
    while (serving->children && fibers_may_park()) {
        reactor_wait wait = {.deadline = REACTOR_FOREVER};

        for (promise *p = serving->children; cancel && p; p = p->next) {
            coroutines_cancel(&((coroutine *)p)->std, NULL);
        }
        serving->until_childless = &wait;
        if (!fibers_park(&wait)) {
            /* The request is cancelled, and with it all that it has begun. */
            zend_clear_exception();
            cancel = true;
        }
        serving->until_childless = NULL;
    }
    coroutines_report();
}

void coroutines_report(void)
{
    while (serving->failed) {
        coroutines_report_one(serving->failed);
    }
}

static zend_string *name_of(const coroutine *c)
{
    const zend_function *called = c->fcc.function_handler;

    if (called && called->common.fn_flags & ZEND_ACC_CLOSURE) {
        return zend_string_copy(called->common.function_name);
    }
    return zend_get_callable_name((zval *)&c->callable);
}

zend_string *coroutines_name(const promise *p)
{
    const coroutine *c = (const coroutine *)p;
    const zend_function *called = c->fcc.function_handler;
    zend_string *name = name_of(c), *whole;

    if (!called || called->type != ZEND_USER_FUNCTION) {
        return name;
    }
    whole = strpprintf(0, "%s() in %s:%u", ZSTR_VAL(name), ZSTR_VAL(called->op_array.filename),
                       called->op_array.line_start);
    zend_string_release(name);
    return whole;
}
