/* Parts of requests that suspend their own Fiber.
 *
 * A handler or coroutine that calls Fiber::suspend() outside of any Fiber of its own comes back to
 * the loop, and stays suspended until it is resumed: by another request, or by an event loop that
 * they share.
 */
#include "async/fibers_suspended.h"
#include "async/fiber_tags.h"
#include "async/fibers_making.h"
#include "async/parts.h"
#include "async/reactor.h"
#include "ground/state.h"

static zend_fiber_context *last; /* the Fiber that ran before, if it has suspended itself */
static part *resumed;            /* by an exception, now */

/* A Fiber that has suspended itself has none, until it is resumed. One that waits keeps its own. */
static bool has_no_caller(zend_fiber_context *context)
{
    return context->kind == zend_ce_fiber && !zend_fiber_from_context(context)->caller;
}

void fibers_note_suspended(zend_fiber_context *from)
{
    last = from->status == ZEND_FIBER_STATUS_RUNNING && has_no_caller(from) ? from : NULL;
}

static bool is_suspended(const part *p)
{
    return p->root && p->root->status == ZEND_FIBER_STATUS_SUSPENDED && has_no_caller(p->root);
}

static void throw_into(zend_fiber *fiber, void (*throw)(const request_state *request))
{
    zend_execute_data *frame = EG(current_execute_data);
    zend_object *thrown;
    zval exception;

    /* So that the exception knows where it comes from. The frame is in a call that suspends, so it
     * is that of a function of PHP, in which nothing is caught here. */
    EG(current_execute_data) = fiber->execute_data;
    throw(fiber_tags_request(&fiber->context));
    thrown = EG(exception);
    EG(exception) = NULL;
    EG(current_execute_data) = frame;
    if (thrown) {
        ZVAL_OBJ(&exception, thrown);
        fibers_call(fiber, "throw", &exception);
        zval_ptr_dtor(&exception);
    }
}

static void throw_abandoned(const request_state *request)
{
    (void)request;
    zend_throw_error(NULL, "Fiber::suspend() outside of a Fiber that the request has started: "
                           "nobody has the Fiber of its handler or coroutine, and can resume it");
}

/* A part that is asked to end while it is suspended waits for nothing that could be broken off, so
 * it is resumed by that exception. */
static void throw_reason(const request_state *request)
{
    zend_object *reason;

    parts_take_break(resumed, &reason);
    if (reason && !zend_is_unwind_exit(reason)) {
        zend_throw_exception_internal(reason);
        return;
    }
    if (reason) {
        OBJ_RELEASE(reason); /* Fiber::throw() takes no exit */
    }
    parts_throw_cancelled(request);
}

static part *first_to_be_thrown_into(void)
{
    for (const request_state *r = oldest_request; r; r = r->newer) {
        for (part *p = r->handler; p; p = p->next) {
            if (p->breaks_next && is_suspended(p)) {
                return p;
            }
        }
    }
    return NULL;
}

static void mind_one_suspended(zend_fiber *fiber)
{
    request_state *request = fiber_tags_request(&fiber->context);

    if (!request) {
        return; /* its request has ended: nothing waits for it */
    }
    request->frames = fiber->execute_data;
    if (GC_REFCOUNT(&fiber->std) == 1) {
        throw_into(fiber, throw_abandoned);
    }
}

void fibers_mind_suspended(void)
{
    while (last || parts_have_breaks) {
        zend_fiber_context *suspended = last;

        last = NULL;
        if (suspended) {
            mind_one_suspended(zend_fiber_from_context(suspended));
            /* It may have been asked to end before it suspended itself. */
            parts_have_breaks = true;
        } else if ((resumed = first_to_be_thrown_into())) {
            throw_into(zend_fiber_from_context(resumed->root), throw_reason);
        } else {
            parts_have_breaks = false;
        }
    }
}

bool fibers_are_stuck(void)
{
    if (reactor_over() > 0) {
        return false;
    }
    for (const request_state *r = oldest_request; r; r = r->newer) {
        for (const part *p = r->handler; p; p = p->next) {
            if (parts_await_events(p) || (!p->waits && !is_suspended(p))) {
                return false;
            }
        }
    }
    return true;
}
