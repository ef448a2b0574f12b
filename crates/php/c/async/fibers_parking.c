/* Contexts of async mode that wait.
 *
 * A context that waits for something goes straight to the loop's context, and from there straight
 * back: see fibers.c. Here is when it may, what is kept meanwhile, and how its wait is broken off.
 */
#include <errno.h>

#include "async/fibers_parking.h"
#include "async/collecting.h"
#include "async/fibers.h"
#include "async/fibers_switching.h"
#include "async/in_use.h"
#include "async/mid_call.h"
#include "async/own_connections.h"
#include "async/parts.h"
#include "async/reactor.h"

/* Also while the compiler calls an error handler: it does not say then that it compiles. */
static bool is_compiling(void)
{
    return CG(in_compilation) || CG(active_op_array);
}

/* A function of C that goes on after its exception, as phpredis does: it lets go of the lock of
 * a session whose connection has failed. The exception is put aside meanwhile. In code of PHP the
 * engine is on its way to the handler, and expects to find what it has noted of that. */
static bool exception_lets_others_run(void)
{
    const zend_execute_data *frame = EG(current_execute_data);

    return !EG(exception) || parts_running()->is_breaking ||
           (frame && frame->func && !ZEND_USER_CODE(frame->func->type));
}

bool fibers_may_park(void)
{
    return fibers_in_request() && !serving->is_held && !collecting_now() &&
           exception_lets_others_run() && !is_compiling() && !OG(running) &&
           !(OG(flags) & PHP_OUTPUT_LOCKED) &&
           !(EG(in_autoload) && zend_hash_num_elements(EG(in_autoload)) > 0);
}

bool fibers_park(reactor_wait *wait)
{
    const int error = errno;
    part *running = parts_running();
    own_connections *connections;
    zend_object *reason;
    parked here = {.wait = wait, .frames = EG(current_execute_data)};
    mid_call call;
    in_use_mark used;
    int blocks;

    wait->ready = REACTOR_BROKEN;
    if (EG(exception) && running->is_breaking) {
        return parts_break_off(running, NULL);
    }
    running->is_breaking = false;
    if (parts_take_break(running, &reason)) {
        return parts_break_off(running, reason);
    }
    blocks = fibers_unblock();
    wait->owner = EG(current_fiber_context);
    wait->shown = &serving->request->doing;
    wait->reason = NULL;
    parts_note_parked(running, &here);
    in_use_begin(&used, wait);
    reactor_add(wait);
    mid_call_leave(&call);
    connections = own_connections_leave();
    fibers_switch_to(EG(main_fiber_context));
    own_connections_enter(connections);
    mid_call_enter(&call);
    parts_forget_parked(&here);
    in_use_end(&used);
    fibers_block(blocks);
    if (wait->ready == REACTOR_BROKEN) {
        return parts_break_off(running, wait->reason);
    }
    errno = error;
    return true;
}
