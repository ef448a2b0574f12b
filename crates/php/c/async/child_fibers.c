/* Fibers within a request of async mode, beside its own.
 *
 * The caller that begins a child makes its Fiber, so that the caller gets the error if that fails.
 * The event loop of the script enters the Fiber later, as it enters a request's own, so a caller
 * that begins two children waits for neither. A child has the tag of its request, and so its state.
 * A Fiber whose job is done is kept for the next job of any request, because a new one costs a
 * stack.
 *
 *   begin ──► in the reactor's list of those whose turn it is ──► entered ──► job ──► free, or gone
 */
#include "async/child_fibers.h"
#include "async/fibers.h"
#include "async/fibers_making.h"
#include "async/fibers_switching.h"
#include "async/reactor.h"

typedef struct child {
    reactor_wait turn; /* the first member, so that go_on() can cast it back */
    request_state *of;
    child_job job;
    void *argument;
    zval object;
    zend_fiber_context *context; /* the Fiber's, which is entered to run the job */
    struct child *next_free;
} child;

/* Each has a stack, which is two mappings of the 65 530 that the kernel allows a process. A free
 * one holds some 30 kB. */
enum { MOST = 10000, MOST_FREE = 64 };

static struct {
    child *free, *made, *ended;
    size_t count, free_count;
} children;

static ZEND_NAMED_FUNCTION(do_jobs)
{
    child *c = children.made;
    zend_fiber *fiber = zend_fiber_from_context(EG(current_fiber_context));
    zend_fiber_context *next = fiber->caller;

    (void)return_value;
    c->context = EG(current_fiber_context);
    fiber->caller = EG(main_fiber_context);
    while (fibers_await_work(next)) {
        bool whole = c->job(c->argument);

        EG(current_execute_data) = execute_data;
        children.count--;
        c->job = NULL;
        if (!whole || fiber->caller != EG(main_fiber_context) || children.free_count == MOST_FREE) {
            c->next_free = children.ended;
            children.ended = c;
            return;
        }
        c->next_free = children.free;
        children.free = c;
        children.free_count++;
        next = EG(main_fiber_context);
    }
}

static zend_internal_function do_jobs_function;

/* Frees the children whose Fiber has ended. */
static void free_ended(void)
{
    child *c;

    while ((c = children.ended)) {
        children.ended = c->next_free;
        zval_ptr_dtor(&c->object);
        pefree(c, 1);
    }
}

static void go_on(reactor_wait *turn)
{
    child *c = (child *)turn;

    fibers_enter(c->context, c->of);
    free_ended();
}

/* Makes a child with its Fiber; NULL if an exception was thrown. */
static child *make(void)
{
    child *volatile c = pecalloc(1, sizeof(*c), 1);
    const int blocks = fibers_unblock();

    if (!do_jobs_function.function_name) {
        fibers_make_function(&do_jobs_function, "Tokamak\\async", do_jobs);
    }
    children.made = c;
    zend_try {
        fibers_make(&c->object, &do_jobs_function);
    } zend_catch {
        fibers_block(blocks);
        pefree(c, 1);
        zend_bailout();
    } zend_end_try();
    fibers_block(blocks);
    if (EG(exception)) {
        zval_ptr_dtor(&c->object);
        pefree(c, 1);
        return NULL;
    }
    return c;
}

child_begin child_fibers_begin(child_job job, void *of)
{
    child *c = children.free;

    if (children.count == MOST) {
        return CHILD_TOO_MANY;
    }
    if (c) {
        children.free = c->next_free;
        children.free_count--;
    } else if (!(c = make())) {
        return CHILD_HAS_THROWN;
    }
    children.count++;
    c->turn = (reactor_wait){.deadline = REACTOR_FOREVER, .go_on = go_on};
    c->of = serving;
    c->job = job;
    c->argument = of;
    reactor_finish(&c->turn);
    return CHILD_BEGUN;
}

void child_fibers_end(void)
{
    child *c;

    free_ended();
    while ((c = children.free)) {
        children.free = c->next_free;
        zval_ptr_dtor(&c->object);
        pefree(c, 1);
    }
    if (do_jobs_function.function_name) {
        zend_string_release(do_jobs_function.function_name);
        do_jobs_function.function_name = NULL;
    }
    memset(&children, 0, sizeof(children));
}
