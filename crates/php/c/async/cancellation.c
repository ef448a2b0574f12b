/* Cancels requests of async mode: the client has left, the time limit is over, or the worker ends
 * and nobody resumes the request.
 *
 * What it waits for is broken off, by an exception that `finally` blocks see, a CancellationError.
 * It is an Error, so that code which catches Exception to try again, or to do without, does not
 * keep a request alive that nobody wants. Only one wait is broken off, so that blocks which clean
 * up may wait (for a ROLLBACK, say); after a grace time the next one is, and so on. A request that
 * does not wait is not ended here: of those that take too long the supervisor ends the process.
 *
 * ignore_user_abort means what it does everywhere: who has set it hears from connection_aborted()
 * that the client has left, and goes on.
 */
#include <stdio.h>
#include <unistd.h>

#include "async/cancellation.h"
#include "async/coroutines.h"
#include "async/fibers.h"
#include "request_cycle.h"

/* Between two attempts to end the same request. A tenth would break off what cleans up; ten times
 * more would leave requests that nobody wants at work for long, and be longer than the supervisor
 * waits after request_timeout (crates/supervisor/src/watch.rs). */
#define GRACE UINT64_C(2000000000)

typedef enum { NOT_CANCELLED, CLIENT_LEFT, TOOK_TOO_LONG, NOBODY_RESUMES } cancellation_cause;

static const char *const messages[] = {
    [CLIENT_LEFT] = "The client has left",
    [TOOK_TOO_LONG] = "The request took longer than pool.request_timeout",
    [NOBODY_RESUMES] = "The worker ends, and nobody has resumed the request's Fiber"};

static struct {
    reactor_wait alarm;
    bool alarm_is_set;
    uint64_t end; /* when requests end that nobody resumes; 0: no such time */
} cancellation;

/* ---- the alarm: one for all requests, at the first point in time that concerns one ---- */

static void look(reactor_wait *alarm);

static void set_alarm(uint64_t due)
{
    if (due == REACTOR_FOREVER) {
        return;
    }
    if (!cancellation.alarm_is_set) {
        cancellation.alarm = (reactor_wait){.deadline = due, .go_on = look};
        cancellation.alarm_is_set = true;
        reactor_add(&cancellation.alarm);
    } else if (due < cancellation.alarm.deadline) {
        /* Then it is set anew. */
        reactor_break(&cancellation.alarm);
    }
}

void cancellation_settle(void)
{
    cancellation.alarm_is_set = false;
    cancellation.end = 0;
}

void cancellation_begin(const shim_request *request)
{
    set_alarm(request->due);
}

/* ---- in the loop ---- */

static void say(const request_state *request, const char *message, uint64_t now)
{
    char line[160];
    int len = snprintf(line, sizeof(line), "%s seconds=%.1f pid=%d", message,
                       (double)(now - request->request->begun) / 1e9, (int)getpid());

    rust_log(SHIM_ERROR, line, (size_t)len < sizeof(line) ? (size_t)len : sizeof(line) - 1);
}

static void cancel(request_state *request, cancellation_cause cause, uint64_t now)
{
    if (request->cause == NOT_CANCELLED) {
        request->cause = cause;
        if (cause != CLIENT_LEFT) {
            rust_serve(request->request->place);
            say(request, messages[cause], now);
            rust_serve(SHIM_NOBODY);
        }
    }
    request->due = now + GRACE;
    fibers_cancel(request);
}

/* The oldest that is due. Requests come and go while one is cancelled. */
static request_state *first_due(uint64_t now)
{
    request_state *r = oldest_request;

    while (r && r->due > now) {
        r = fibers_newer(r);
    }
    return r;
}

static void look(reactor_wait *alarm)
{
    const uint64_t now = reactor_now();
    uint64_t next = REACTOR_FOREVER;
    cancellation_cause cause = TOOK_TOO_LONG;
    request_state *r;

    (void)alarm;
    cancellation.alarm_is_set = false;
    if (cancellation.end != 0 && cancellation.end <= now) {
        cancellation.end = 0;
        if (fibers_all_suspended()) {
            cause = NOBODY_RESUMES;
            for (r = oldest_request; r; r = fibers_newer(r)) {
                r->due = now;
            }
        }
    }
    while ((r = first_due(now))) {
        cancel(r, cause, now);
    }
    for (r = oldest_request; r; r = fibers_newer(r)) {
        next = r->due < next ? r->due : next;
    }
    set_alarm(cancellation.end != 0 && cancellation.end < next ? cancellation.end : next);
}

void cancellation_mind_clients(void)
{
    uint32_t place;

    while ((place = rust_left()) != SHIM_NOBODY) {
        request_state *r = oldest_request;

        while (r && r->request->place != place) {
            r = fibers_newer(r);
        }
        if (!r || r->has_left) {
            continue; /* it has noticed by itself */
        }
        r->has_left = true;
        if (!r->ignores_abort) {
            cancel(r, CLIENT_LEFT, reactor_now());
            set_alarm(r->due);
        }
    }
}

void cancellation_mind_end(void)
{
    if (cancellation.end == 0) {
        cancellation.end = reactor_now() + GRACE;
        set_alarm(cancellation.end);
    }
}

/* ---- in the request ---- */

static void tell(cancellation_cause cause)
{
    zend_throw_exception(coroutines_cancellation, messages[cause], 0);
}

void cancellation_throw(void)
{
    tell(serving->cause);
}


void cancellation_note_left(void)
{
    php_output_set_status(PHP_OUTPUT_DISABLED);
    serving->has_left = true;
    PG(connection_status) |= PHP_CONNECTION_ABORTED;
    if (PG(ignore_user_abort) || (serving->cause != NOT_CANCELLED && !serving->breaks_next)) {
        return;
    }
    if (serving->cause == NOT_CANCELLED) {
        serving->cause = CLIENT_LEFT;
        serving->due = reactor_now() + GRACE;
        set_alarm(serving->due);
    }
    serving->breaks_next = false;
    if (EG(current_execute_data) && !EG(exception)) {
        cancellation_throw();
    }
}

static bool client_has_left(void)
{
    return serving->has_left || rust_client_left();
}

bool cancellation_is_due(void)
{
    return serving->request && (serving->cause != NOT_CANCELLED ||
                                serving->request->due <= reactor_now() ||
                                (!PG(ignore_user_abort) && client_has_left()));
}

/* From now on the loop knows: it need not cancel the request before its next wait. */
static void note_cause(cancellation_cause cause, uint64_t now)
{
    serving->cause = cause;
    serving->due = now + GRACE;
    if (cause == CLIENT_LEFT) {
        serving->has_left = true;
        PG(connection_status) |= PHP_CONNECTION_ABORTED;
    } else {
        say(serving, messages[cause], now);
    }
}

void cancellation_begin_here(void)
{
    const uint64_t now = reactor_now();
    cancellation_cause cause = serving->cause;

    if (cause == NOT_CANCELLED) {
        cause = serving->request->due <= now ? TOOK_TOO_LONG : CLIENT_LEFT;
        if (shim.config->concurrency > 0) {
            note_cause(cause, now);
        }
    }
    serving->breaks_next = false;
    tell(cause);
}

/* It, or what a driver has made of it. */
static bool tells_of_cancellation(zend_object *exception)
{
    zval space, *earlier;

    while (exception) {
        if (instanceof_function(exception->ce, coroutines_cancellation)) {
            return true;
        }
        if (!instanceof_function(exception->ce, zend_ce_throwable)) {
            return false;
        }
        earlier = zend_read_property_ex(zend_get_exception_base(exception), exception,
                                        ZSTR_KNOWN(ZEND_STR_PREVIOUS), 1, &space);
        exception = Z_TYPE_P(earlier) == IS_OBJECT ? Z_OBJ_P(earlier) : NULL;
    }
    return false;
}

void cancellation_report(void)
{
    const int status = serving->cause == TOOK_TOO_LONG ? 504 : 500;
    bool answers_itself;

    if (!EG(exception) || !tells_of_cancellation(EG(exception))) {
        request_report_exception();
        return;
    }
    if (serving->cause == CLIENT_LEFT) {
        zend_clear_exception();
        return;
    }
    answers_itself = Z_TYPE(EG(user_exception_handler)) != IS_UNDEF;
    if (SG(headers_sent)) {
        serving->is_cut = true; /* nobody is to take, or keep, the part for the whole */
    } else {
        SG(sapi_headers).http_response_code = status;
    }
    request_report_exception();
    if (!SG(headers_sent) && !answers_itself) {
        /* PHP says 500 where errors are not shown. */
        SG(sapi_headers).http_response_code = status;
    }
}
