/* The parts of a request of async mode: its handler, and its coroutines.
 *
 * A part is asked to end by an exception out of what it waits for. Each gets its own, once:
 * then its `finally` blocks may wait, for PARTS_GRACE, whatever happens to its request or others.
 *
 * A context has the part of the context that it was made in: a Fiber of the application is of the
 * coroutine that has made it. It may outlive that coroutine; then it is of the handler.
 */
#include <errno.h>

#include <Zend/zend_observer.h>

#include "async/parts.h"
#include "async/reactor.h"
#include "async/shown.h"

bool parts_have_breaks;
void (*parts_throw_cancelled)(const request_state *request);
static int part_slot; /* of contexts */

/* ---- which part a context is of ---- */

static void release(part *p)
{
    if (--p->users == 0) {
        pefree(p, 1);
    }
}

static void set_part(zend_fiber_context *context, part *p)
{
    part *before = context->reserved[part_slot];

    context->reserved[part_slot] = p;
    if (p) {
        p->users++;
    }
    if (before) {
        release(before);
    }
}

void parts_inherit(zend_fiber_context *context)
{
    set_part(context, EG(current_fiber_context)->reserved[part_slot]);
}

static void on_destroy(zend_fiber_context *context)
{
    set_part(context, NULL);
}

bool parts_watch(void (*throw_cancelled)(const request_state *request))
{
    parts_throw_cancelled = throw_cancelled;
    part_slot = zend_get_resource_handle("tokamak");
    if (part_slot < 0) {
        return false;
    }
    zend_observer_fiber_init_register(parts_inherit);
    zend_observer_fiber_destroy_register(on_destroy);
    return true;
}

part *parts_running(void)
{
    part *p = EG(current_fiber_context)->reserved[part_slot];

    return p && !p->is_over ? p : serving->handler;
}

/* ---- their waits ---- */

void parts_note_parked(part *p, parked *here)
{
    here->next = p->waits;
    here->before = &p->waits;
    if (here->next) {
        here->next->before = &here->next;
    }
    p->waits = here;
}

void parts_forget_parked(parked *here)
{
    *here->before = here->next;
    if (here->next) {
        here->next->before = here->before;
    }
}

static void pass_on(part *from, part *to)
{
    parked *first = from->waits;

    parts_forget_parked(first);
    parts_note_parked(to, first);
}

zend_fiber_context *parts_first_waiting(const request_state *request)
{
    return request->handler->waits ? request->handler->waits->wait->owner : NULL;
}

void parts_pass_on_wait(request_state *from, request_state *to)
{
    from->handler->waits->wait->shown = to->request ? &to->request->doing : NULL;
    pass_on(from->handler, to->handler);
}

/* Of the coroutine that began last: what its handler waits for is mostly the coroutines. */
void parts_show_waits(request_state *request)
{
    const parked *newest = NULL;
    unsigned count = 0;

    for (const part *p = request->handler; p; p = p->next) {
        if (p->waits && (!newest || newest == request->handler->waits)) {
            newest = p->waits;
        }
        for (const parked *waiting = p->waits; waiting; waiting = waiting->next) {
            count++;
        }
    }
    request->frames = newest ? newest->frames : NULL;
    shown_waiting(request, newest ? newest->wait : NULL, count ? count - 1 : 0);
}

bool parts_await_events(const part *p)
{
    for (const parked *waiting = p->waits; waiting; waiting = waiting->next) {
        if (!reactor_is_endless(waiting->wait)) {
            return true;
        }
    }
    return false;
}

/* ---- their life ---- */

void parts_begin_handler(part *handler, request_state *of)
{
    *handler = (part){.of = of};
    of->handler = handler;
}

static void forget_reason(part *p)
{
    if (p->reason) {
        OBJ_RELEASE(p->reason);
        p->reason = NULL;
    }
    p->breaks_next = false;
}

void parts_end_handler(part *handler)
{
    forget_reason(handler);
    handler->root = NULL;
}

part *parts_begin(void)
{
    part *p = pecalloc(1, sizeof(*p), 1), *handler = serving->handler;

    p->of = serving;
    p->root = EG(current_fiber_context);
    p->users = 1;
    p->next = handler->next;
    p->before = &handler->next;
    if (p->next) {
        p->next->before = &p->next;
    }
    handler->next = p;
    set_part(EG(current_fiber_context), p);
    return p;
}

void parts_end(part *p)
{
    *p->before = p->next;
    if (p->next) {
        p->next->before = p->before;
    }
    while (p->waits) {
        pass_on(p, p->of->handler);
    }
    p->is_over = true;
    forget_reason(p);
    set_part(EG(current_fiber_context), NULL);
    release(p);
}

/* ---- they are asked to end ---- */

/* The end of a response has no frame. */
bool parts_break_off(part *p, zend_object *reason)
{
    p->is_breaking = true;
    if (reason && EG(current_execute_data)) {
        zend_throw_exception_internal(reason);
    } else if (reason) {
        OBJ_RELEASE(reason);
    } else if (!EG(exception) && EG(current_execute_data)) {
        parts_throw_cancelled(serving);
    }
    errno = ECANCELED;
    return false;
}

bool parts_take_break(part *p, zend_object **reason)
{
    const bool breaks = p->breaks_next;

    *reason = p->reason;
    p->reason = NULL;
    p->breaks_next = false;
    return breaks;
}

void parts_break(part *p, zend_object *reason)
{
    for (parked *waiting = p->waits; waiting; waiting = waiting->next) {
        if (!waiting->wait->is_over) {
            waiting->wait->reason = reason;
            reactor_break(waiting->wait);
            return;
        }
    }
    forget_reason(p);
    p->breaks_next = parts_have_breaks = true;
    p->reason = reason;
}

void parts_cancel(part *p, zend_object *reason, uint64_t now)
{
    if (p->is_let_be_until <= now) {
        p->is_let_be_until = now + PARTS_GRACE;
        parts_break(p, reason);
    } else if (reason) {
        OBJ_RELEASE(reason);
    }
}

void parts_cancel_all(request_state *request, uint64_t now)
{
    for (part *p = request->handler; p; p = p->next) {
        parts_cancel(p, NULL, now);
    }
}

void parts_break_here(void)
{
    part *running = parts_running();
    zend_object *reason;

    if (!parts_take_break(running, &reason)) {
        return;
    }
    if (!EG(exception)) {
        parts_break_off(running, reason);
    } else if (reason) {
        OBJ_RELEASE(reason);
    }
}
