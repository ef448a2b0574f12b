/* A Fiber for each request of async mode.
 *
 * The loop of async.c runs in the context of the worker script. It enters a request's Fiber by
 * PHP's own Fiber::start(), so that the handler runs in a Fiber as any code of PHP may make one. A
 * wait is different from Fiber::suspend(): it goes from whatever context waits (the request's
 * Fiber, or one that the application has made within it) straight to the script's, and from there
 * straight back. PHP sees a Fiber that runs all the time.
 *
 *            start                    park
 *   free ───────────► running ◄───────────────► parked
 *    ▲                   │        go on
 *    └───────────────────┘ over: the Fiber waits for its next request
 *
 * What is parked is a context: a request may have several that wait side by side.
 *
 * State follows the tag of the context, also if PHP switches: a Fiber that is made while a
 * request is served belongs to that request. So an application that resumes the Fiber of another
 * request runs it with that one's state. When that request has ended, its Fibers have no request,
 * until a request resumes one of them: then it belongs to that one. See fiber_tags.c.
 *
 * No frame of Rust is on a stack that is switched away from: what Rust does, it has returned from.
 */
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <Zend/zend_fibers.h>
#include <Zend/zend_observer.h>

#include "async/fibers.h"
#include "async/collecting.h"
#include "async/fiber_tags.h"
#include "async/fibers_making.h"
#include "async/fibers_suspended.h"
#include "async/fibers_switching.h"
#include "async/kinds.h"
#include "async/own_connections.h"
#include "async/own_state.h"
#include "async/parts.h"
#include "async/reactor.h"
#include "async/shown.h"
#include "ground/critical_section.h"

typedef struct request_fiber {
    request_state state; /* the first, so that `serving` and tags lead here */
    own_state *own;
    fiber_owner contexts;
    bool is_under_way; /* it has state of its own */
    zval object;       /* undefined: none yet */
    zend_fiber_context *context;
    part handler;
    struct request_fiber *next_free;
    struct request_fiber *older; /* of those under way */
} request_fiber;

static struct {
    request_fiber *all, *free, *newest;
    size_t most, count;
    const fibers_handlers *handlers;
    request_state *of_script;
    part script; /* of which Fibers are that belong to no request any more */
    request_fiber *starting;
    uint32_t seed;
    pid_t process; /* the worker */
    bool is_watching; /* PHP calls the observers of contexts */
    bool cannot_make; /* it was said that a Fiber cannot be had */
} fibers;

volatile sig_atomic_t fibers_switches;

/* Libraries have threads, and these call libc too. */
static _Thread_local bool is_of_php;

/* ---- whose turn it is ---- */

static request_fiber *current(void)
{
    return serving == fibers.of_script ? NULL : (request_fiber *)serving;
}

/* The request that a context belongs to; NULL: it belongs to the script. */
static request_fiber *tag(const zend_fiber_context *context)
{
    return (request_fiber *)fiber_tags_request(context);
}

static void put_tag(zend_fiber_context *context, request_fiber *f)
{
    fiber_tags_put(context, f ? &f->contexts : NULL);
}

static void on_destroy(zend_fiber_context *context)
{
    if (fibers.all) {
        put_tag(context, NULL);
    }
}

static void on_init(zend_fiber_context *made)
{
    fiber_tags_begin(made);
    if (fibers.all) {
        put_tag(made, fibers.starting ? fibers.starting : tag(EG(current_fiber_context)));
    }
    fibers.starting = NULL;
}

static void on_switch(zend_fiber_context *from, zend_fiber_context *to)
{
    request_fiber *before = current(), *next;

    fibers_switches++;
    if (!fibers.all) {
        return;
    }
    fibers_note_suspended(from);
    if (fiber_tags_is_stale(to) || collecting_in(to)) {
        put_tag(to, before);
        parts_inherit(to);
    }
    next = tag(to);
    if (before == next) {
        own_connections_note_entered(to);
        return;
    }
    own_connections_note_left(from);
    if (before && before->is_under_way) {
        before->state.ignores_abort = PG(ignore_user_abort);
        own_state_leave(before->own);
        parts_show_waits(&before->state);
    }
    frames_left = EG(current_execute_data);
    serving = next ? &next->state : fibers.of_script;
    rust_serve(next && next->state.request ? next->state.request->index : SHIM_NO_SLOT);
    if (next) {
        shown_running(&next->state);
    }
    if (next && next->is_under_way) {
        own_state_enter(next->own);
        if (next->state.has_left) {
            PG(connection_status) |= PHP_CONNECTION_ABORTED;
        }
    }
    own_connections_note_entered(to);
}

/* ---- who is under way ---- */

static void enter(request_fiber *f)
{
    f->older = fibers.newest;
    f->state.newer = NULL;
    *(f->older ? &f->older->state.newer : &oldest_request) = &f->state;
    fibers.newest = f;
    fibers.count++;
}

static void leave(request_fiber *f)
{
    request_fiber *newer = (request_fiber *)f->state.newer;

    *(f->older ? &f->older->state.newer : &oldest_request) = f->state.newer;
    *(newer ? &newer->older : &fibers.newest) = f->older;
    fibers.count--;
    f->next_free = fibers.free;
    fibers.free = f;
}

/* ---- inside of a request's Fiber ---- */

/* Fibers of this request that others have resumed, and that wait, belong to those others when it
 * ends. */
static void pass_on_waits(request_fiber *f)
{
    zend_fiber_context *waits;

    while ((waits = parts_first_waiting(&f->state))) {
        zend_fiber_context *last = waits, *next;

        while (last && tag(last) == f) {
            last = zend_fiber_from_context(last)->caller;
        }
        for (zend_fiber_context *c = waits; c != last; c = next) {
            next = zend_fiber_from_context(c)->caller;
            put_tag(c, last ? tag(last) : NULL);
        }
        parts_pass_on_wait(&f->state, last && tag(last) ? &tag(last)->state : fibers.of_script);
    }
}

/* The request has ended: what it has made, and others can still resume, has no request. */
static void leave_contexts(request_fiber *f)
{
    char why[160];
    size_t count, left;

    pass_on_waits(f);
    put_tag(EG(current_fiber_context), NULL);
    count = f->contexts.count;
    left = fiber_tags_end(&f->contexts);
    if (count > 0 && left > FIBER_TAGS_MOST_STALE) {
        snprintf(why, sizeof(why), "%zu Fibers are left by requests that have ended, %zu by this "
                 "one, and more than %d are too many", left, count, FIBER_TAGS_MOST_STALE);
        fibers.handlers->take_no_more(why);
    }
}

static void serve_one(request_fiber *f, const shim_request *request, zend_execute_data *frame)
{
    volatile bool whole = false;

    f->state.is_held = true;
    f->is_under_way = true;
    f->handler.root = EG(current_fiber_context);
    own_state_begin(f->own);
    f->state.is_held = false;
    zend_try {
        whole = fibers.handlers->serve(request);
    } zend_end_try();
    EG(current_execute_data) = frame;
    f->state.is_held = true;
    if (!whole) {
        fibers_forget_jump();
    }
    if (!own_state_end(f->own)) {
        whole = false;
        fibers.handlers->take_no_more(FIBERS_FATAL_ERROR);
    }
    if (!whole) {
        critical_section_note_lost();
    }
    parts_end_handler(&f->handler);
    leave_contexts(f);
    f->state.request = NULL;
    f->is_under_way = false;
    rust_forget(request->index);
}

/* The function of each request's Fiber: serves one request after another. */
static ZEND_NAMED_FUNCTION(serve)
{
    request_fiber *f = current();
    zend_fiber *fiber = zend_fiber_from_context(EG(current_fiber_context));

    (void)return_value;
    f->context = EG(current_fiber_context);
    while (fibers_await_work(EG(main_fiber_context))) {
        serve_one(f, f->state.request, execute_data);
        leave(f);
        if (fiber->caller != EG(main_fiber_context)) {
            /* Another Fiber has resumed it, and goes on as after any Fiber that ends. */
            return;
        }
    }
}

bool fibers_await_work(zend_fiber_context *next)
{
    zend_fiber_transfer transfer;

    put_tag(EG(current_fiber_context), NULL);
    transfer = fibers_switch_to(next);

    if (transfer.flags & ZEND_FIBER_TRANSFER_FLAG_ERROR) {
        zend_throw_exception_internal(Z_OBJ(transfer.value));
        return false;
    }
    return true;
}

static zend_internal_function serve_function;

/* ---- in the script's context ---- */

/* A value that a Fiber suspends itself with is for the caller of resume(); the loop drops it. */
static void go_to(zend_fiber_context *context)
{
    zend_fiber_transfer transfer = fibers_switch_to(context);

    zval_ptr_dtor(&transfer.value);
}

void fibers_enter(zend_fiber_context *context, request_state *of)
{
    put_tag(context, (request_fiber *)of);
    go_to(context);
}

static bool can_serve_again(const request_fiber *f)
{
    return Z_TYPE(f->object) == IS_OBJECT &&
           ((zend_fiber *)Z_OBJ(f->object))->context.status == ZEND_FIBER_STATUS_SUSPENDED;
}

/* Why there is no Fiber, once for each time that there is none. */
static void say_cannot_make(void)
{
    const bool is_known = fibers.cannot_make;
    zend_string *line;
    zval space;

    fibers.cannot_make = true;
    if (!is_known) {
        line = strpprintf(
            0, "no Fiber can be made for another request, which waits until one of %zu is over: %s",
            fibers.count,
            EG(exception) ? Z_STRVAL_P(zend_read_property_ex(zend_ce_exception, EG(exception),
                                                             ZSTR_KNOWN(ZEND_STR_MESSAGE), 1,
                                                             &space))
                          : "no memory");
        rust_log(SHIM_ERROR, ZSTR_VAL(line), ZSTR_LEN(line));
        zend_string_release(line);
    }
    if (EG(exception)) {
        zend_clear_exception();
    }
}

bool fibers_can_start(void)
{
    request_fiber *f = fibers.free;

    if (EXPECTED(can_serve_again(f))) {
        return true;
    }
    critical_section_begin();
    fibers.starting = f;
    fibers_make(&f->object, &serve_function);
    fibers.starting = NULL;
    critical_section_end();
    if (!can_serve_again(f)) {
        say_cannot_make();
        return false;
    }
    fibers.cannot_make = false;
    return true;
}

void fibers_start(const shim_request *request)
{
    request_fiber *f = fibers.free;

    fibers.free = f->next_free;
    f->state = (request_state){.stage = STAGE_BOOT, .request = request, .own = f->own,
                               .due = request->due};
    parts_begin_handler(&f->handler, &f->state);
    enter(f);
    fibers_enter(f->context, &f->state);
    fibers_mind_suspended();
}

/* xorshift32: for tests, which want the same order from the same seed. */
static uint32_t draw(void)
{
    fibers.seed ^= fibers.seed << 13;
    fibers.seed ^= fibers.seed >> 17;
    fibers.seed ^= fibers.seed << 5;
    return fibers.seed;
}

/* How many that others have woken meanwhile go on before the reactor is looked at. A tenth of it,
 * and coroutines that were begun together would see timers end in between; ten times more would
 * keep those who wait for events waiting for tens of milliseconds. */
enum { MOST_WOKEN = 1000 };

void fibers_go_on(void)
{
    for (size_t left = reactor_over() + MOST_WOKEN; left > 0 && reactor_over() > 0; left--) {
        reactor_wait *wait = reactor_take(fibers.seed ? draw() % 64 : 0);

        if (wait->go_on) {
            wait->go_on(wait);
        } else {
            go_to(wait->owner);
        }
        fibers_mind_suspended();
    }
}

bool fibers_take_turns(void)
{
    return fibers.seed != 0;
}

size_t fibers_count(void)
{
    return fibers.count;
}

void fibers_watch(void (*throw_cancelled)(const request_state *request))
{
    fibers.is_watching = fiber_tags_watch() && parts_watch(throw_cancelled);
    if (fibers.is_watching) {
        collecting_watch();
        zend_observer_fiber_init_register(on_init);
        zend_observer_fiber_switch_register(on_switch);
        zend_observer_fiber_destroy_register(on_destroy);
    }
}

static bool make_places(size_t most)
{
    fibers.all = calloc(most, sizeof(*fibers.all));
    if (!fibers.all || !own_state_learn()) {
        return false;
    }
    fibers.most = most;
    fibers.free = NULL;
    for (size_t i = most; i-- > 0;) {
        request_fiber *f = &fibers.all[i];
        f->contexts.of = &f->state;
        f->own = own_state_make();
        if (!f->own) {
            return false;
        }
        f->next_free = fibers.free;
        fibers.free = f;
    }
    return true;
}

const char *fibers_begin(size_t most, uint32_t seed, const fibers_handlers *handlers)
{
    if (!fibers.is_watching) {
        return "extensions have taken all places that PHP has for those that watch Fibers "
               "(zend_get_resource_handle): load fewer of the kind of Xdebug";
    }
    if (!make_places(most)) {
        return "no memory: lower `concurrency`";
    }
    fibers.seed = seed;
    fibers.process = (pid_t)syscall(SYS_getpid);
    fibers.handlers = handlers;
    fibers.of_script = serving;
    parts_begin_handler(&fibers.script, serving);
    fibers.cannot_make = false;
    fiber_tags_reset();
    fibers_make_function(&serve_function, "tokamak_handle_request", serve);
    kinds_begin();
    is_of_php = true;
    return NULL;
}

void fibers_end(void)
{
    is_of_php = false;
    for (size_t i = 0; i < fibers.most; i++) {
        request_fiber *f = &fibers.all[i];
        zval_ptr_dtor(&f->object);
        own_state_free(f->own);
    }
    own_state_forget();
    zend_string_release(serve_function.function_name);
    free(fibers.all);
    fibers.all = NULL;
}

/* ---- for others ---- */

bool fibers_in_request(void)
{
    return is_of_php && !shim.is_copy && current();
}

bool fibers_is_outermost(void)
{
    const zend_fiber *fiber = EG(active_fiber);

    return !fiber || (fibers_in_request() && fiber->caller == EG(main_fiber_context));
}

void fibers_cancel(request_state *request, uint64_t now)
{
    parts_cancel_all(request, now);
    if (serving == fibers.of_script) {
        fibers_mind_suspended();
    }
}

bool fibers_is_vfork_child(void)
{
    return is_of_php && !shim.is_copy && (pid_t)syscall(SYS_getpid) != fibers.process;
}

void fibers_note_closed(int fd)
{
    if (is_of_php && !shim.is_copy) { /* a copy has the same epoll */
        reactor_note_closed(fd);
    }
}
