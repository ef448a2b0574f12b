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
 * State follows the tag of the context, whoever switches: a Fiber that is made while a request is
 * served belongs to that request. So an application that resumes the Fiber of another request runs
 * it with that one's state.
 *
 * No frame of Rust is on a stack that is switched away from: what Rust does, it has returned from.
 */
#include <errno.h>
#include <stdlib.h>

#include <Zend/zend_fibers.h>
#include <Zend/zend_observer.h>

#include "fibres.h"
#include "child_fibres.h"
#include "kinds.h"
#include "mid_call.h"
#include "own_state.h"

typedef struct fibre {
    request_state state; /* the first, so that `serving` leads here */
    own_state *own;
    bool is_under_way; /* it has state of its own */
    bool is_held;      /* nobody may be let in between */
    zval object;       /* undefined: none yet */
    zend_fiber_context *context;
    struct fibre *next_free;
    struct fibre *older, *newer; /* of those under way */
} fibre;

static struct {
    fibre *all, *free, *oldest, *newest;
    size_t most, count;
    fibres_handler handler;
    request_state *of_script;
    fibre *starting;
    uint32_t seed;
    int slot; /* of contexts */
    bool is_collecting;
} fibres;

/* Libraries have threads, and these call libc too. */
static _Thread_local bool is_of_php;

static int (*collect_cycles)(void);

static int collect(void)
{
    const bool before = fibres.is_collecting;
    int count;

    fibres.is_collecting = true;
    count = collect_cycles();
    fibres.is_collecting = before;
    return count;
}

/* ---- whose turn it is ---- */

static fibre *current(void)
{
    return serving == fibres.of_script ? NULL : (fibre *)serving;
}

static void on_init(zend_fiber_context *made)
{
    made->reserved[fibres.slot] =
        fibres.starting ? fibres.starting : EG(current_fiber_context)->reserved[fibres.slot];
    fibres.starting = NULL;
}

static void on_switch(zend_fiber_context *from, zend_fiber_context *to)
{
    fibre *before = current(), *next = to->reserved[fibres.slot];

    (void)from;
    if (!fibres.all || before == next) {
        return;
    }
    if (before && before->is_under_way) {
        own_state_leave(before->own);
    }
    serving = next ? &next->state : fibres.of_script;
    rust_serve(next && next->state.request ? next->state.request->place : SHIM_NOBODY);
    if (next && next->is_under_way) {
        own_state_enter(next->own);
    }
}

static zend_fiber_transfer switch_to(zend_fiber_context *to)
{
    zend_fiber_transfer transfer = {.context = to, .value.u1.type_info = IS_NULL};

    zend_fiber_switch_context(&transfer);
    return transfer;
}

/* ---- who is under way ---- */

static void enter(fibre *f)
{
    f->older = fibres.newest;
    f->newer = NULL;
    *(f->older ? &f->older->newer : &fibres.oldest) = f;
    fibres.newest = f;
    fibres.count++;
    oldest_request = &fibres.oldest->state;
}

static void leave(fibre *f)
{
    *(f->older ? &f->older->newer : &fibres.oldest) = f->newer;
    *(f->newer ? &f->newer->older : &fibres.newest) = f->older;
    fibres.count--;
    oldest_request = fibres.oldest ? &fibres.oldest->state : NULL;
    f->next_free = fibres.free;
    fibres.free = f;
}

/* ---- inside of a request's Fiber ---- */

static void serve_one(fibre *f, const shim_request *request, zend_execute_data *frame)
{
    volatile bool whole = false;
    int blocks = 0;

    f->is_held = true;
    f->is_under_way = true;
    own_state_begin(f->own);
    f->is_held = false;
    zend_try {
        whole = fibres.handler(request);
    } zend_end_try();
    EG(current_execute_data) = frame;
    f->is_held = true;
    if (!whole) {
        /* A jump out of a destructor leaves this. */
        for (; zend_fiber_switch_blocked() && blocks < 1000; blocks++) {
            zend_fiber_switch_unblock();
        }
    }
    zend_try {
        own_state_end(f->own);
    } zend_end_try();
    f->state.request = NULL;
    f->is_under_way = false;
    rust_forget(request->place);
}

/* The function of each request's Fiber: serves one request after another. */
static ZEND_NAMED_FUNCTION(serve)
{
    fibre *f = current();
    zend_fiber *fiber = zend_fiber_from_context(EG(current_fiber_context));

    (void)return_value;
    for (;;) {
        serve_one(f, f->state.request, execute_data);
        leave(f);
        if (fiber->caller != EG(main_fiber_context)) {
            /* Somebody else has resumed it, and goes on as after any Fiber that ends. */
            return;
        }
        f->context = EG(current_fiber_context);
        if (!fibres_await_work()) {
            return;
        }
    }
}

bool fibres_await_work(void)
{
    zend_fiber_transfer transfer = switch_to(EG(main_fiber_context));

    if (transfer.flags & ZEND_FIBER_TRANSFER_FLAG_ERROR) {
        zend_throw_exception_internal(Z_OBJ(transfer.value));
        return false;
    }
    return true;
}

ZEND_BEGIN_ARG_INFO(no_arguments, 0)
ZEND_END_ARG_INFO()

static zend_internal_function serve_function = {
    .type = ZEND_INTERNAL_FUNCTION,
    .handler = serve,
    .arg_info = (zend_internal_arg_info *)no_arguments + 1,
};

/* ---- in the script's context ---- */

void fibres_enter_new(zval *object, zend_internal_function *function, request_state *of)
{
    zend_fiber *fiber;
    zval nothing;

    zval_ptr_dtor(object);
    object_init_ex(object, zend_ce_fiber);
    fiber = (zend_fiber *)Z_OBJ_P(object);
    fiber->fci = (zend_fcall_info){.size = sizeof(zend_fcall_info)};
    fiber->fci_cache.function_handler = (zend_function *)function;
    fibres.starting = (fibre *)of;
    zend_call_method_with_0_params(&fiber->std, zend_ce_fiber, NULL, "start", &nothing);
    zval_ptr_dtor(&nothing);
    if (fiber->context.status == ZEND_FIBER_STATUS_SUSPENDED) {
        /* The frame of start() has gone; a backtrace must not walk into it. */
        fiber->stack_bottom->prev_execute_data = NULL;
    }
}

void fibres_enter(zend_fiber_context *context, request_state *of)
{
    context->reserved[fibres.slot] = of;
    switch_to(context);
}

static bool can_serve_again(const fibre *f)
{
    return Z_TYPE(f->object) == IS_OBJECT &&
           ((zend_fiber *)Z_OBJ(f->object))->context.status == ZEND_FIBER_STATUS_SUSPENDED;
}

void fibres_start(const shim_request *request)
{
    fibre *f = fibres.free;

    fibres.free = f->next_free;
    f->state = (request_state){.stage = STAGE_BOOT, .request = request, .own = f->own};
    enter(f);
    if (can_serve_again(f)) {
        switch_to(f->context);
    } else {
        fibres_enter_new(&f->object, &serve_function, &f->state);
    }
}

/* xorshift32: for tests, which want the same order from the same seed. */
static uint32_t draw(void)
{
    fibres.seed ^= fibres.seed << 13;
    fibres.seed ^= fibres.seed >> 17;
    fibres.seed ^= fibres.seed << 5;
    return fibres.seed;
}

void fibres_go_on(void)
{
    reactor_wait *wait;

    while ((wait = reactor_take(fibres.seed ? draw() % 64 : 0))) {
        if (wait->go_on) {
            wait->go_on(wait);
        } else {
            switch_to(wait->owner);
        }
    }
}

bool fibres_take_turns(void)
{
    return fibres.seed != 0;
}

size_t fibres_count(void)
{
    return fibres.count;
}

void fibres_watch(void)
{
    fibres.slot = zend_get_resource_handle("tokamak");
    zend_observer_fiber_init_register(on_init);
    zend_observer_fiber_switch_register(on_switch);
    collect_cycles = gc_collect_cycles;
    gc_collect_cycles = collect;
}

bool fibres_begin(size_t most, uint32_t seed, fibres_handler handler)
{
    fibres.all = calloc(most, sizeof(*fibres.all));
    if (!fibres.all) {
        return false;
    }
    fibres.most = most;
    fibres.seed = seed;
    fibres.handler = handler;
    fibres.of_script = serving;
    fibres.free = NULL;
    own_state_learn();
    serve_function.function_name = zend_string_init("tokamak_handle_request",
                                                    strlen("tokamak_handle_request"), 0);
    for (size_t i = most; i-- > 0;) {
        fibre *f = &fibres.all[i];
        f->own = own_state_make();
        if (!f->own) {
            return false;
        }
        f->next_free = fibres.free;
        fibres.free = f;
    }
    kinds_begin();
    is_of_php = true;
    return true;
}

void fibres_end(void)
{
    is_of_php = false;
    for (size_t i = 0; i < fibres.most; i++) {
        fibre *f = &fibres.all[i];
        zval_ptr_dtor(&f->object);
        own_state_free(f->own);
    }
    child_fibres_end();
    own_state_forget();
    zend_string_release(serve_function.function_name);
    free(fibres.all);
    fibres.all = NULL;
}

/* ---- waiting ---- */

bool fibres_in_request(void)
{
    return is_of_php && !shim.is_copy && current();
}

bool fibres_may_park(void)
{
    return fibres_in_request() && !current()->is_held && !fibres.is_collecting &&
           !EG(exception) && !CG(in_compilation) && !OG(running) &&
           !(OG(flags) & PHP_OUTPUT_LOCKED) &&
           !(EG(in_autoload) && zend_hash_num_elements(EG(in_autoload)) > 0);
}

void fibres_park(reactor_wait *wait)
{
    const int error = errno;
    mid_call call;
    int blocks = 0;

    /* A count of the process: others may switch while this one waits in a destructor. */
    for (; zend_fiber_switch_blocked(); blocks++) {
        zend_fiber_switch_unblock();
    }
    wait->owner = EG(current_fiber_context);
    serving->frames = EG(current_execute_data);
    reactor_add(wait);
    mid_call_leave(&call);
    switch_to(EG(main_fiber_context));
    mid_call_enter(&call);
    for (; blocks > 0; blocks--) {
        zend_fiber_switch_block();
    }
    errno = error;
}

void fibres_note_closed(int fd)
{
    if (is_of_php) {
        reactor_note_closed(fd);
    }
}
