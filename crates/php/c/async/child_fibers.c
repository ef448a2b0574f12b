/* Fibers within a request of async mode, beside its own.
 *
 * Each is entered by the loop of the script, as a request's own Fiber is, and not by the one that
 * asked for it: who begins two children waits for neither. It has the request's tag, and so its
 * state. A Fiber whose job is done waits for the next one, of whatever request: a new one costs a
 * stack.
 *
 *   begin ──► in the reactor's list of those whose turn it is ──► entered ──► job ──► free, or gone
 */
#include "async/child_fibers.h"
#include "async/fibers.h"

typedef struct child {
    reactor_wait turn; /* the first, so that a turn leads here */
    request_state *of;
    child_job job;
    void *argument;
    zval object;                 /* undefined: none yet */
    zend_fiber_context *context; /* where it stands between two jobs */
    struct child *next_free;
} child;

/* Each has a stack, which is two mappings of the 65 530 that the kernel allows a process. A free
 * one holds some 30 kB. */
enum { MOST = 10000, MOST_FREE = 64 };

static struct {
    child *free, *entering, *ended;
    size_t count, free_count;
} children;

static ZEND_NAMED_FUNCTION(do_jobs)
{
    child *c = children.entering;
    zend_fiber *fiber = zend_fiber_from_context(EG(current_fiber_context));

    (void)return_value;
    for (;;) {
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
        c->context = EG(current_fiber_context);
        if (!fibers_await_work()) {
            return;
        }
    }
}

ZEND_BEGIN_ARG_INFO(no_arguments, 0)
ZEND_END_ARG_INFO()

static zend_internal_function do_jobs_function = {
    .type = ZEND_INTERNAL_FUNCTION,
    .handler = do_jobs,
    .arg_info = (zend_internal_arg_info *)no_arguments + 1,
};

/* Those whose Fiber has come to its end. */
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

    if (Z_TYPE(c->object) == IS_OBJECT) {
        fibers_enter(c->context, c->of);
    } else {
        if (!do_jobs_function.function_name) {
            do_jobs_function.function_name =
                zend_string_init("Tokamak\\async", strlen("Tokamak\\async"), 0);
        }
        children.entering = c;
        fibers_enter_new(&c->object, &do_jobs_function, c->of);
    }
    free_ended();
}

bool child_fibers_begin(child_job job, void *of)
{
    child *c = children.free;

    if (children.count == MOST) {
        return false;
    }
    if (c) {
        children.free = c->next_free;
        children.free_count--;
    } else {
        c = pecalloc(1, sizeof(*c), 1);
    }
    children.count++;
    c->turn = (reactor_wait){.deadline = REACTOR_FOREVER, .go_on = go_on};
    c->of = serving;
    c->job = job;
    c->argument = of;
    reactor_finish(&c->turn);
    return true;
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
