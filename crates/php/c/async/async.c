/* Async mode: one worker script, many requests at once.
 *
 * The loop runs in the script's own context, inside of tokamak_handle_request(). It takes a
 * request as long as fewer are under way than may be, goes on with those whose wait is over, and
 * sleeps when there is neither. It takes one at a time, and is rung only when it sleeps: so an idle
 * neighbour gets work first.
 *
 * After a fatal error the state of the engine is unknown. Its request is ended; the worker takes no
 * more, finishes those under way, and is replaced.
 */
#include <stdio.h>

#include <Zend/zend_observer.h>

#include "async/async.h"
#include "async/cancellation.h"
#include "async/child_fibers.h"
#include "async/context.h"
#include "async/coroutines.h"
#include "async/fatal_errors.h"
#include "async/fibers.h"
#include "async/fibers_parking.h"
#include "async/fibers_suspended.h"
#include "async/fibers_switching.h"
#include "async/peers.h"
#include "async/reactor.h"
#include "async/waiting_for.h"
#include "cycle/request_cycle.h"
#include "ground/sapi.h"
#include "process/opcache.h"

static struct {
    zend_fcall_info fci;
    zend_fcall_info_cache fcc;
    bool is_ending;
    bool begins_anew; /* it is the script that ends, not the worker */
} async;

static void take_no_more(const char *why)
{
    char line[512];
    int len;

    if (async.is_ending) {
        return;
    }
    async.is_ending = true;
    rust_look_no_more(true);
    len = snprintf(line, sizeof(line), "%s: the worker takes no more requests, and is replaced "
                   "when those under way are answered", why);
    rust_log(SHIM_WARN, line, (size_t)len < sizeof(line) ? (size_t)len : sizeof(line) - 1);
}

/* ---- one request, in its Fiber ---- */

static bool call_handler(const shim_request *request)
{
    zend_fcall_info fci = async.fci;
    zend_fcall_info_cache fcc = async.fcc;
    zval result;
    bool failed;

    request_begin(request);
    ZVAL_UNDEF(&result);
    fci.retval = &result;
    zend_call_function(&fci, &fcc);
    failed = EG(exception) != NULL;
    cancellation_report();
    zval_ptr_dtor(&result);
    coroutines_end(failed);
    return !COMPAT_OUT_OF_MEMORY() && !serving->is_broken;
}

/* Returns whether all went well, before and now. */
static bool end_request(bool was_whole)
{
    volatile bool whole = was_whole;

    zend_try {
        whole &= request_end();
        /* Functions registered since the response was complete. */
        whole &= request_run_shutdown_functions();
        coroutines_end(false);
        context_forget();
    } zend_catch {
        whole = false;
    } zend_end_try();
    return whole;
}

static bool serve(const shim_request *request)
{
    zend_execute_data *frame = EG(current_execute_data);
    volatile bool whole = false;

    zend_try {
        whole = call_handler(request);
    } zend_end_try();
    EG(current_execute_data) = frame;
    if (!whole) {
        if (ZEND_OBSERVER_ENABLED) {
            /* The calls that were jumped over have ended, as for a request that PHP ends. */
            zend_observer_fcall_end_all();
        }
        COMPAT_END_OUT_OF_MEMORY();
        /* Else its coroutines could not come to their end. */
        fibers_forget_jump();
        zend_try {
            coroutines_end(true);
        } zend_end_try();
        EG(current_execute_data) = frame;
    }
    whole = end_request(whole);
    EG(current_execute_data) = frame;
    sapi_end_response();
    sapi_forget_request();
    sapi_leave_copy();
    if (!whole) {
        take_no_more(FIBERS_FATAL_ERROR);
    }
    return whole;
}

/* ---- the server's side of it ---- */

typedef enum { IS_READY, CANNOT_PARK, IS_CANCELLED } readiness;

static readiness await_server(uint8_t kind)
{
    reactor_wait wait = {.deadline = REACTOR_FOREVER, .for_doorbell = true, .kind = kind};

    if (!fibers_may_park()) {
        return CANNOT_PARK;
    }
    return fibers_park(&wait) ? IS_READY : IS_CANCELLED;
}

/* For tests: whatever reads a body or writes a response is to bear others in between. */
static void take_turns(void)
{
    if (fibers_take_turns() && fibers_may_park()) {
        waiting_take_turns();
    }
}

int async_write(shim_part part, const char *at, size_t len)
{
    take_turns();
    while (len > 0 && !serving->is_cut) {
        ptrdiff_t written = rust_write_now(part, at, len);
        if (written < 0) {
            return 1;
        }
        at += written;
        len -= (size_t)written;
        if (len == 0) {
            break;
        }
        switch (await_server(SHIM_AWAITS_ROOM)) {
        case IS_READY:
            break;
        case CANNOT_PARK:
            return rust_write(part, at, len);
        case IS_CANCELLED:
            serving->is_cut = true;
            return 0;
        }
    }
    return 0;
}

size_t async_read_body(char *at, size_t len)
{
    size_t filled = 0;

    take_turns();
    while (filled < len) {
        ptrdiff_t more = rust_read_body_now(at + filled, len - filled);
        if (more == 0) {
            break;
        }
        if (more > 0) {
            filled += (size_t)more;
            continue;
        }
        if (more < -1) {
            /* PHP takes a short read for the end of the body. */
            cancellation_note_left();
            return filled;
        }
        switch (await_server(SHIM_AWAITS_BODY)) {
        case IS_READY:
            break;
        case CANNOT_PARK:
            return filled + rust_read_body(at + filled, len - filled);
        case IS_CANCELLED:
            return filled;
        }
    }
    return filled;
}

/* ---- the loop ---- */

/* Whether there was a request to take. */
static bool take_request(bool will_sleep)
{
    const shim_request *request;

    if (async.is_ending || fibers_count() >= shim.config->concurrency) {
        return false;
    }
    if (opcache_restarts()) {
        async.is_ending = async.begins_anew = true;
        rust_look_no_more(false);
        return false;
    }
    if (!fibers_can_start()) {
        if (fibers_count() == 0) {
            take_no_more("no Fiber can be made for a request");
        }
        return false;
    }
    switch (rust_look(will_sleep, &request)) {
    case SHIM_REQUEST:
        cancellation_begin(request);
        fibers_start(request);
        return true;
    case SHIM_LEAVE:
        async.is_ending = true;
        return false;
    default:
        return false;
    }
}

static const fibers_handlers handlers = {
    .serve = serve, .take_no_more = take_no_more};

/* Nanoseconds for which requests are begun, or go on, one after the other before the reactor is
 * looked at: a look is a system call. */
#define BETWEEN_LOOKS UINT64_C(100000)

static void loop(void)
{
    uint64_t looked = 0;

    for (;;) {
        /* First: a request that it was woken for waits, beside idle neighbours. */
        bool took = take_request(false);

        if (reactor_was_rung()) {
            cancellation_mind_clients();
        }
        fibers_go_on();
        if (!took && reactor_over() == 0) {
            if (async.is_ending && fibers_count() == 0) {
                return;
            }
            if (take_request(true) || (async.is_ending && fibers_count() == 0)) {
                continue;
            }
            if (fibers_count() == 0) {
                opcache_note_idle();
            } else if ((async.is_ending || rust_is_draining()) && fibers_are_stuck()) {
                cancellation_mind_end();
            }
            reactor_look(true);
        } else if (fibers_count() > 0 && reactor_now() - looked >= BETWEEN_LOOKS) {
            reactor_look(false);
            looked = reactor_now();
        }
    }
}

bool async_serve(zend_fcall_info *fci, zend_fcall_info_cache *fcc)
{
    const char *why;
    shim_peers peers;

    async.fci = *fci;
    async.fcc = *fcc;
    async.is_ending = async.begins_anew = false;
    if (EG(active_fiber)) {
        zend_throw_exception(spl_ce_RuntimeException,
                             "tokamak_handle_request() called in a Fiber: requests have Fibers of "
                             "their own", 0);
        return false;
    }
    why = reactor_begin(rust_doorbell())
              ? fibers_begin(shim.config->concurrency, shim.config->seed, &handlers)
              : "no descriptors: raise the limit on open files";
    if (why) {
        zend_throw_exception_ex(spl_ce_RuntimeException, 0, "async mode cannot begin: %s", why);
        return false;
    }
    cancellation_reset();
    rust_peers(&peers);
    peers_begin(peers);
    loop();
    shim.script.is_over = true;
    peers_end();
    child_fibers_end();
    fibers_end();
    fatal_errors_end();
    reactor_end();
    return !async.begins_anew;
}
