/* The collection of cycles, in async mode.
 *
 * What runs while PHP collects are destructors. If one of them let other requests run, these would
 * use and change values that the collector has marked. So no request waits there.
 *
 * PHP 8.4 calls these destructors in a Fiber, if the collection begins in one, and keeps that Fiber
 * for the next collection, which may be in another request.
 */
#include "async/collecting.h"
#include "ground/compat.h"

static struct {
    int (*collect)(void);
    bool is_under_way;
} collecting;

static int collect(void)
{
    const bool before = collecting.is_under_way;
    int count;

    collecting.is_under_way = true;
    count = collecting.collect();
    collecting.is_under_way = before;
    return count;
}

void collecting_watch(void)
{
    collecting.collect = gc_collect_cycles;
    gc_collect_cycles = collect;
}

bool collecting_now(void)
{
    return collecting.is_under_way;
}

void collecting_note_jump(void)
{
    collecting.is_under_way = false;
}

bool collecting_in(const zend_fiber_context *context)
{
    const zend_function *called;

    if (!collecting.is_under_way || context->kind != zend_ce_fiber) {
        return false;
    }
    called = zend_fiber_from_context((zend_fiber_context *)context)->fci_cache.function_handler;
    return called && called->type == ZEND_INTERNAL_FUNCTION && !called->common.scope &&
           zend_string_equals_literal(called->common.function_name, "gc_destructor_fiber");
}
