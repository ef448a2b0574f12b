/* Where a slow request is: its PHP stack, for its entry in the error log. The request goes on.
 *
 * The zygote reads it out of the worker's memory, see peek.c. The worker notices nothing, wherever
 * it is: a signal would cut a sleep() or a query short. Where the zygote may not read the memory,
 * the worker is sent a signal after all, and writes its stack itself. Because of the signal: only
 * async-signal-safe calls, no allocation, no PHP function.
 */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "ground/backtrace.h"
#include "ground/peek.h"
#include "ground/state.h"
#include "image.h"

enum { DEEPEST = 64, LONGEST_NAME = 256 };

static char text[16 * 1024];
static size_t used;

static void add(const char *at, size_t len)
{
    for (size_t i = 0; i < len && used < sizeof(text) - 1; i++) {
        unsigned char c = (unsigned char)at[i];
        text[used++] = c < 32 || c == 127 ? '?' : (char)c;
    }
}

static void add_text(const char *at)
{
    add(at, strlen(at));
}

/* What no text contains: the end of a line, or of a column. */
static void add_end(char end)
{
    text[used++] = end;
}

static void add_number(uint64_t n)
{
    char digits[24];
    int at = sizeof(digits);

    do {
        digits[--at] = '0' + (char)(n % 10);
        n /= 10;
    } while (n > 0);
    add(digits + at, sizeof(digits) - (size_t)at);
}

static void add_hexadecimal(uint64_t n, int width)
{
    for (int at = 4 * (width - 1); at >= 0; at -= 4) {
        add(&"0123456789abcdef"[n >> at & 15], 1);
    }
}

static void add_string(const zend_string *string)
{
    zend_string head;
    char chars[LONGEST_NAME];
    size_t len;

    if (!string || !peek(&head, string, offsetof(zend_string, val))) {
        return;
    }
    len = head.len < sizeof(chars) ? head.len : sizeof(chars);
    if (peek(chars, ZSTR_VAL(string), len)) {
        add(chars, len);
    }
}

static void add_frame(int depth, const zend_execute_data *frame)
{
    zend_uchar type;
    zend_op_array code;
    zend_op line;
    zend_class_entry class;
    zend_internal_function inner;

    if (!frame->func || !peek(&type, frame->func, 1)) {
        return;
    }
    add_text("    #");
    add_number((uint64_t)depth);
    add_text(" ");
    if (type == ZEND_INTERNAL_FUNCTION) {
        if (peek(&inner, frame->func, sizeof(inner))) {
            if (inner.scope && peek(&class, inner.scope, sizeof(class))) {
                add_string(class.name);
                add_text("::");
            }
            add_string(inner.function_name);
            add_text("()");
        }
    } else if (peek(&code, frame->func, sizeof(code))) {
        if (code.scope && peek(&class, code.scope, sizeof(class))) {
            add_string(class.name);
            add_text("::");
        }
        if (code.function_name) {
            add_string(code.function_name);
            add_text("() ");
        }
        add_string(code.filename);
        if (frame->opline && peek(&line, frame->opline, sizeof(line))) {
            add_text(":");
            add_number(line.lineno);
        }
    }
    add_end('\n');
}

static void add_field(const shim_text *field)
{
    char chars[LONGEST_NAME];
    size_t len = field->len < sizeof(chars) ? field->len : sizeof(chars);

    if (peek(chars, field->at, len)) {
        add(chars, len);
    }
}

/* The request's name, as all logs have it. */
static void add_id(const shim_request *request)
{
    add_hexadecimal(request->begun, 16);
    add_hexadecimal(request->ticket, 8);
}

/* As php-fpm's slow log has it: which call, and where it was made from. 0: it is the script
 * itself. */
static int add_call(const zend_execute_data *at, const zend_execute_data *frame)
{
    const zend_execute_data *next = frame->prev_execute_data;
    zend_execute_data caller;
    zend_function called;
    zend_op_array code;
    zend_op line = {0};
    zend_uchar type;

    if (!frame->func || !peek(&called.common, frame->func, sizeof(called.common))) {
        return 0;
    }
    if (!called.common.function_name &&
        ZEND_CALL_KIND_EX(frame->This.u1.type_info) == ZEND_CALL_TOP_CODE) {
        return 0;
    }
    add_number((uint64_t)(uintptr_t)at);
    add_end('\t');
    if (called.common.function_name) {
        add_string(called.common.function_name);
    } else {
        add_text("[INCLUDE_OR_EVAL]");
    }
    add_end('\t');
    for (int depth = 0; next && depth < DEEPEST && peek(&caller, next, sizeof(caller)); depth++) {
        if (caller.func && peek(&type, caller.func, 1) && type == ZEND_USER_FUNCTION &&
            peek(&code, caller.func, sizeof(code))) {
            add_string(code.filename);
            if (caller.opline && !peek(&line, caller.opline, sizeof(line))) {
                line.lineno = 0;
            }
            break;
        }
        next = caller.prev_execute_data;
    }
    add_end('\t');
    add_number(line.lineno);
    add_end('\n');
    return 1;
}

/* Of the requests that are under way the one of this slot; NULL: it has ended. The list may be in
 * the middle of a change, so it has no more members than there can be requests. */
static request_state *find(uint32_t slot, request_state *copied)
{
    request_state *at;
    uint32_t left = shim.config->concurrency;

    if (!peek(&at, &oldest_request, sizeof(at))) {
        return NULL;
    }
    for (; at && left > 0 && peek(copied, at, sizeof(*copied)); at = copied->newer, left--) {
        const shim_request *request = peek_request(copied);
        if (request && request->slot == slot) {
            return at;
        }
    }
    return NULL;
}

/* What runs, and its calls, which are NULL in the middle of a switch to it; 0: the process cannot
 * be read. In async mode it goes on to another request between two reads now and then. */
static int read_running(request_state **running, const zend_execute_data **frames)
{
    const zend_execute_data *left;
    request_state *before;
    int tries = 8;

    do {
        if (!peek(&before, &serving, sizeof(before)) || !peek(&left, &frames_left, sizeof(left)) ||
            !peek(frames, &EG(current_execute_data), sizeof(*frames)) ||
            !peek(running, &serving, sizeof(*running))) {
            return 0;
        }
    } while (*running != before && --tries > 0);
    if (*frames == left) {
        *frames = NULL;
    }
    return 1;
}

/* What a process is at; 0: it cannot be read. Its request is NULL or a copy; it is NULL, too, if
 * that of this slot has ended. */
static int look_at(pid_t pid, int memory, uint32_t slot, const shim_request **request,
                   const zend_execute_data **frames)
{
    request_state *running, *at, state;

    peek_at(pid, memory);
    used = 0;
    *request = NULL;
    if (!read_running(&running, frames)) {
        return 0;
    }
    if (slot == SHIM_NO_SLOT) {
        if (!peek(&state, running, sizeof(state))) {
            return 0;
        }
    } else if (!(at = find(slot, &state))) {
        return 1;
    } else if (at != running || !*frames) {
        *frames = state.frames;
    }
    *request = peek_request(&state);
    return 1;
}

/* The script's file in a line, then one for each call, the innermost first: address, function,
 * file, line number. */
size_t shim_trace(int pid, int memory, const char **to)
{
    const shim_request *request;
    const zend_execute_data *next;
    zend_execute_data frame;

    *to = text;
    if (!look_at(pid, memory, SHIM_NO_SLOT, &request, &next)) {
        return 0;
    }
    if (request) {
        add_field(&request->field[SHIM_SCRIPT_FILENAME]);
    }
    add_end('\n');
    for (int depth = 0; next && depth < DEEPEST && used < sizeof(text) - 1024; depth++) {
        if (!peek(&frame, next, sizeof(frame)) || !add_call(next, &frame)) {
            break;
        }
        next = frame.prev_execute_data;
    }
    return used;
}

static void add_frames(const zend_execute_data *next)
{
    zend_execute_data frame;

    for (int depth = 0; next && depth < DEEPEST && used < sizeof(text) - 1024; depth++) {
        if (!peek(&frame, next, sizeof(frame))) {
            break;
        }
        add_frame(depth, &frame);
        next = frame.prev_execute_data;
    }
}

size_t backtrace_of_this(const char *headline, const char **to)
{
    peek_at(getpid(), -1);
    used = 0;
    add_text(headline);
    add_end('\n');
    add_frames(EG(current_execute_data));
    *to = text;
    return used;
}

/* In a line a headline and the name of the request that a process is at, then its stack; without
 * them: it is at none. 0: the process cannot be read. */
static int describe(const char *headline, pid_t pid, int memory, uint32_t slot)
{
    const shim_request *request;
    const zend_execute_data *next;

    if (!look_at(pid, memory, slot, &request, &next)) {
        return 0;
    }
    add_text(headline);
    if (request) {
        add_id(request);
    }
    add_end('\n');
    if (request) {
        add_frames(next);
    }
    return 1;
}

size_t shim_stack(int pid, int memory, uint32_t slot, const char **to)
{
    *to = text;
    return describe("", pid, memory, slot) ? used : 0;
}

static void on_backtrace(int number, siginfo_t *info, void *context)
{
    int kept = errno;
    uint32_t slot =
        info->si_code == SI_QUEUE ? (uint32_t)info->si_value.sival_int : SHIM_NO_SLOT;

    (void)number;
    (void)context;
    if (!image_is_rolling_back() &&
        describe("the stack of a slow request, id=", getpid(), -1, slot)) {
        /* If the log cannot be written, there is no other place for the message. */
        (void)!write(2, text, used);
    }
    errno = kept;
}

void shim_backtrace(int pid, uint32_t slot, int signal_number)
{
    sigqueue(pid, signal_number, (union sigval){.sival_int = (int)slot});
}

void backtrace_init_signals(int backtrace_signal)
{
    struct sigaction action = {.sa_sigaction = on_backtrace, .sa_flags = SA_RESTART | SA_SIGINFO};

#ifdef ZEND_SIGNALS
    /* PHP would otherwise look at seven signal handlers before each request (7 to 14 system calls)
     * in order to put its deferral in front of handlers that others installed meanwhile. SIGPROF,
     * the only one that PHP uses here, is installed by zend_set_timeout in any case; the others get
     * handlers that may interrupt anything. */
    SIGG(reset) = 0;
#endif
    sigfillset(&action.sa_mask);
    sigaction(backtrace_signal, &action, NULL);
}
