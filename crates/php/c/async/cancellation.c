/* Cancels requests of async mode: the client has left, the time limit is over, or the worker ends
 * and nothing resumes the request.
 *
 * What each of its parts waits for is broken off, by an exception that `finally` blocks see, a
 * CancellationError. It is an Error, so that code which catches Exception to try again, or to do
 * without, does not keep a request alive whose client has left. Only one wait of a part is broken
 * off, so that blocks which clean up may wait (for a ROLLBACK, say); after PARTS_GRACE the next one
 * is, and so on. A request that does not wait is not ended here: of those that take too long the
 * supervisor ends the process.
 *
 * ignore_user_abort means what it does everywhere: who has set it hears from connection_aborted()
 * that the client has left, and goes on.
 */
#include <unistd.h>

#include "async/cancellation.h"
#include "async/fibers.h"
#include "async/fibers_suspended.h"
#include "async/parts.h"
#include "async/reactor.h"
#include "async/stacks.h"
#include "cycle/request_cycle.h"

zend_class_entry *cancellation_error;

typedef enum { NOT_CANCELLED, CLIENT_LEFT, TOOK_TOO_LONG, NOBODY_RESUMES } cancellation_cause;

static const char *const messages[] = {
    [NOT_CANCELLED] = "A coroutine of the request has called exit()",
    [CLIENT_LEFT] = "The client has left",
    [TOOK_TOO_LONG] = "The request took longer than pool.request_timeout",
    [NOBODY_RESUMES] = "The worker ends, and nothing is left that could resume the request"};

static struct {
    reactor_wait alarm;
    bool alarm_is_set;
    uint64_t end; /* when requests end that nothing resumes; 0: no such time */
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

void cancellation_reset(void)
{
    cancellation.alarm_is_set = false;
    cancellation.end = 0;
}

void cancellation_begin(const shim_request *request)
{
    set_alarm(request->due);
}

/* ---- in the loop ---- */

/* The calls of the coroutine that was begun last, or of the handler: one that has returned waits
 * for its coroutines. */
static const zend_execute_data *waits_in(const request_state *request)
{
    const part *last = request->handler->next ? request->handler->next : request->handler;

    return last->waits ? last->waits->frames : request->frames;
}

static void say(const request_state *request, uint64_t now)
{
    const bool has_stack = request->cause == NOBODY_RESUMES; /* others: with what they throw */
    zend_string *stack = has_stack ? stacks_text(waits_in(request)) : ZSTR_EMPTY_ALLOC();
    zend_string *line = strpprintf(0, "%s seconds=%.1f pid=%d%s%s", messages[request->cause],
                                   (double)(now - request->request->begun) / 1e9, (int)getpid(),
                                   has_stack ? ": " : "", ZSTR_VAL(stack));

    rust_log(SHIM_ERROR, ZSTR_VAL(line), ZSTR_LEN(line));
    zend_string_release(line);
    zend_string_release(stack);
}

static void cancel(request_state *request, cancellation_cause cause, uint64_t now)
{
    if (request->cause == NOT_CANCELLED) {
        request->cause = cause;
        if (cause != CLIENT_LEFT) {
            rust_serve(request->request->index);
            say(request, now);
            rust_serve(serving->request ? serving->request->index : SHIM_NO_SLOT);
        }
    }
    request->due = now + PARTS_GRACE;
    fibers_cancel(request, now);
}

/* The oldest that is due. Requests come and go while one is cancelled. */
static request_state *first_due(uint64_t now)
{
    request_state *r = oldest_request;

    while (r && r->due > now) {
        r = r->newer;
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
        if (fibers_are_stuck()) {
            cause = NOBODY_RESUMES;
            for (r = oldest_request; r; r = r->newer) {
                r->due = now;
            }
        }
    }
    while ((r = first_due(now))) {
        cancel(r, cause, now);
    }
    for (r = oldest_request; r; r = r->newer) {
        next = r->due < next ? r->due : next;
    }
    set_alarm(cancellation.end != 0 && cancellation.end < next ? cancellation.end : next);
}

void cancellation_mind_clients(void)
{
    uint32_t index;

    while ((index = rust_left()) != SHIM_NO_SLOT) {
        request_state *r = oldest_request;

        while (r && r->request->index != index) {
            r = r->newer;
        }
        if (!r || r->has_left || r->is_head) {
            continue; /* it has noticed by itself; or the front has all that a HEAD needs */
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
        cancellation.end = reactor_now() + PARTS_GRACE;
        set_alarm(cancellation.end);
    }
}

/* ---- in the request ---- */

static void throw_error(cancellation_cause cause)
{
    zend_throw_exception(cancellation_error, messages[cause], 0);
}

void cancellation_throw(const request_state *request)
{
    throw_error(request->cause);
}

void cancellation_note_left(void)
{
    php_output_set_status(PHP_OUTPUT_DISABLED);
    serving->has_left = true;
    PG(connection_status) |= PHP_CONNECTION_ABORTED;
    if (PG(ignore_user_abort)) {
        return;
    }
    if (serving->cause == NOT_CANCELLED) {
        cancel(serving, CLIENT_LEFT, reactor_now());
        set_alarm(serving->due);
    }
    parts_break_here();
}

static bool client_has_left(void)
{
    return serving->has_left || (!serving->is_head && rust_client_left());
}

bool cancellation_is_due(void)
{
    return serving->request && (serving->cause != NOT_CANCELLED ||
                                serving->request->due <= reactor_now() ||
                                (!PG(ignore_user_abort) && client_has_left()));
}

void cancellation_begin_here(void)
{
    const uint64_t now = reactor_now();
    cancellation_cause cause = serving->cause;
    zend_object *reason;

    if (cause == NOT_CANCELLED) {
        cause = serving->request->due <= now ? TOOK_TOO_LONG : CLIENT_LEFT;
    }
    if (shim.config->concurrency > 0) {
        if (serving->cause == NOT_CANCELLED) {
            serving->has_left |= cause == CLIENT_LEFT;
            PG(connection_status) |= cause == CLIENT_LEFT ? PHP_CONNECTION_ABORTED : 0;
            cancel(serving, cause, now);
            set_alarm(serving->due);
        }
        if (parts_take_break(parts_running(), &reason) && reason) {
            OBJ_RELEASE(reason);
        }
    }
    throw_error(cause);
}

bool cancellation_is_cause(zend_object *exception)
{
    zval space, *earlier;

    while (exception) {
        if (instanceof_function(exception->ce, cancellation_error)) {
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

    if (!EG(exception) || !cancellation_is_cause(EG(exception))) {
        request_report_exception();
        return;
    }
    if (serving->cause == CLIENT_LEFT) {
        zend_clear_exception();
        return;
    }
    answers_itself = Z_TYPE(EG(user_exception_handler)) != IS_UNDEF;
    if (SG(headers_sent)) {
        serving->is_cut = true; /* no cache or client may take the part for the whole */
    } else {
        SG(sapi_headers).http_response_code = status;
    }
    request_report_exception();
    if (!SG(headers_sent) && !answers_itself) {
        /* PHP says 500 where errors are not shown. */
        SG(sapi_headers).http_response_code = status;
    }
}

/* ---- in the log ---- */

static void (*log_error)(int type, zend_string *file, const uint32_t line, zend_string *message);

/* A shutdown function that waits may get a CancellationError, too, and PHP logs what is not
 * caught. The log is to be silent about clients that leave, and has named already requests that
 * nothing resumes. An exception's text begins with the one that was thrown first. */
static void drop_cancellations(int type, zend_string *file, const uint32_t line,
                               zend_string *message)
{
    static const char uncaught[] = "Uncaught Tokamak\\CancellationError";

    if ((serving->cause == CLIENT_LEFT || serving->cause == NOBODY_RESUMES) &&
        zend_string_starts_with_cstr(message, uncaught, sizeof(uncaught) - 1)) {
        return;
    }
    log_error(type, file, line, message);
}

void cancellation_watch(void)
{
    log_error = zend_error_cb;
    zend_error_cb = drop_cancellations;
}
