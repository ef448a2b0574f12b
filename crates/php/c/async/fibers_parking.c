/* Contexts of async mode that wait.
 *
 * A context that waits for something goes straight to the loop's context, and from there straight
 * back: see fibers.c. Here is when it may, what is kept meanwhile, and how its wait is broken off.
 */
#include <errno.h>

#include <Zend/zend_observer.h>

#include "async/collecting.h"
#include "async/fibers.h"
#include "async/fibers_parking.h"
#include "async/in_use.h"
#include "async/mid_call.h"
#include "async/own_connections.h"

typedef struct fibers_parked fibers_parked;

/* On the stack of a context that waits. */
struct fibers_parked {
    reactor_wait *wait;
    fibers_parked *next, **before;
};

static struct {
    void (*throw_cancelled)(void);
    int part_slot; /* of contexts */
} parking;

/* ---- parts of a request ---- */

fibers_part *fibers_part_make(void)
{
    fibers_part *part = pecalloc(1, sizeof(*part), 1);

    part->owners = 1;
    return part;
}

void fibers_part_let_go(fibers_part *part)
{
    if (part && --part->owners == 0) {
        if (part->breaks_next) {
            OBJ_RELEASE(part->breaks_next);
        }
        pefree(part, 1);
    }
}

static void put_part(zend_fiber_context *context, fibers_part *part)
{
    if (part) {
        part->owners++;
    }
    fibers_part_let_go(context->reserved[parking.part_slot]);
    context->reserved[parking.part_slot] = part;
}

void fibers_be(fibers_part *part)
{
    put_part(EG(current_fiber_context), part);
}

void fibers_inherit_part(zend_fiber_context *made, bool is_of_loop)
{
    put_part(made, is_of_loop ? NULL : EG(current_fiber_context)->reserved[parking.part_slot]);
}

static void on_destroy(zend_fiber_context *context)
{
    put_part(context, NULL);
}

static fibers_part *part_of(request_state *request, const zend_fiber_context *context)
{
    fibers_part *part = context->reserved[parking.part_slot];

    return part ? part : &request->handler;
}

void fibers_watch_parking(void)
{
    parking.part_slot = zend_get_resource_handle("tokamak");
    zend_observer_fiber_destroy_register(on_destroy);
    collecting_watch();
}

void fibers_begin_parking(void (*throw_cancelled)(void))
{
    parking.throw_cancelled = throw_cancelled;
}

/* ---- waiting ---- */

zend_fiber_transfer fibers_switch_to(zend_fiber_context *to)
{
    zend_fiber_transfer transfer = {.context = to, .value.u1.type_info = IS_NULL};

    zend_fiber_switch_context(&transfer);
    return transfer;
}

void fibers_forget_jump(void)
{
    int blocks = 0;

    /* A jump out of a destructor leaves this. */
    for (; zend_fiber_switch_blocked() && blocks < 1000; blocks++) {
        zend_fiber_switch_unblock();
    }
    /* So does one out of an autoloader, out of the collection of cycles, or out of the compiler.
     * Nobody else is in one: nobody waits there. */
    if (EG(in_autoload)) {
        zend_hash_clean(EG(in_autoload));
    }
    collecting_note_jump();
    CG(active_op_array) = NULL;
}

/* Also while the compiler calls an error handler: it does not say then that it compiles. */
static bool is_compiling(void)
{
    return CG(in_compilation) || CG(active_op_array);
}

bool fibers_may_park(void)
{
    return fibers_in_request() && !serving->is_held && !collecting_now() &&
           (!EG(exception) || serving->is_breaking) && !is_compiling() && !OG(running) &&
           !(OG(flags) & PHP_OUTPUT_LOCKED) &&
           !(EG(in_autoload) && zend_hash_num_elements(EG(in_autoload)) > 0);
}

/* In the context whose wait was broken off. Without a frame nothing can be thrown: the end of a
 * response has none. */
static bool break_off(zend_object *exception)
{
    serving->is_breaking = true;
    if (exception && EG(current_execute_data)) {
        zend_throw_exception_internal(exception);
    } else if (exception) {
        OBJ_RELEASE(exception);
    } else if (!EG(exception) && EG(current_execute_data)) {
        parking.throw_cancelled();
    }
    errno = ECANCELED;
    return false;
}

static void note_parked(request_state *request, fibers_parked *p)
{
    p->next = request->waits;
    p->before = &request->waits;
    if (p->next) {
        p->next->before = &p->next;
    }
    request->waits = p;
}

static void forget_parked(fibers_parked *p)
{
    *p->before = p->next;
    if (p->next) {
        p->next->before = p->before;
    }
}

zend_fiber_context *fibers_first_waiting(const request_state *request)
{
    return request->waits ? request->waits->wait->owner : NULL;
}

void fibers_pass_on(request_state *from, request_state *to)
{
    fibers_parked *first = from->waits;

    forget_parked(first);
    note_parked(to, first);
}

static void exchange_connections(fibers_part *part)
{
    if (part->connections) {
        own_connections_exchange(part->connections);
    }
}

bool fibers_park(reactor_wait *wait)
{
    const int error = errno;
    fibers_part *part = part_of(serving, EG(current_fiber_context));
    fibers_parked here = {.wait = wait};
    mid_call call;
    in_use_mark used;
    int blocks = 0;

    wait->ready = REACTOR_BROKEN;
    if (EG(exception)) {
        return break_off(NULL);
    }
    serving->is_breaking = false;
    if (serving->breaks_next) {
        serving->breaks_next = false;
        return break_off(NULL);
    }
    if (part->breaks_next) {
        zend_object *exception = part->breaks_next;
        part->breaks_next = NULL;
        return break_off(exception);
    }
    /* A count of the process: others may switch while this one waits in a destructor. */
    for (; zend_fiber_switch_blocked(); blocks++) {
        zend_fiber_switch_unblock();
    }
    wait->owner = EG(current_fiber_context);
    serving->frames = EG(current_execute_data);
    wait->reason = NULL;
    note_parked(serving, &here);
    in_use_begin(&used, wait->fds, wait->count);
    reactor_add(wait);
    mid_call_leave(&call);
    exchange_connections(part);
    fibers_switch_to(EG(main_fiber_context));
    exchange_connections(part);
    mid_call_enter(&call);
    forget_parked(&here);
    in_use_end(&used);
    for (; blocks > 0; blocks--) {
        zend_fiber_switch_block();
    }
    if (wait->ready == REACTOR_BROKEN) {
        return break_off(wait->reason);
    }
    errno = error;
    return true;
}

void fibers_interrupt(reactor_wait *wait, zend_object *exception)
{
    if (wait->is_over) {
        if (exception) {
            OBJ_RELEASE(exception);
        }
        return;
    }
    wait->reason = exception;
    reactor_break(wait);
}

void fibers_break_part(request_state *request, fibers_part *part, zend_object *exception)
{
    part = part ? part : &request->handler;
    for (fibers_parked *p = request->waits; p; p = p->next) {
        if (!p->wait->is_over && part_of(request, p->wait->owner) == part) {
            fibers_interrupt(p->wait, exception);
            return;
        }
    }
    if (part->breaks_next) {
        OBJ_RELEASE(part->breaks_next);
    }
    part->breaks_next = exception;
}

void fibers_break_request(request_state *request)
{
    bool is_told = false;

    for (fibers_parked *p = request->waits; p; p = p->next) {
        is_told |= !p->wait->is_over;
        fibers_interrupt(p->wait, NULL);
    }
    request->breaks_next = !is_told;
}
