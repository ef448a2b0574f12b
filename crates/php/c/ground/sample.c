/* The PHP stacks of a worker at this moment, for a profile: read as peek.c has it, while the worker
 * runs on.
 *
 * The calls of PHP lie one after another in a piece of the engine's stack. That piece is copied at
 * once, in about a microsecond, so that the calls of one sample belong together; what a call names
 * (function, class, file) lives longer. What was torn all the same shows: a type that no function
 * has, a name that is no string, memory that is not there. Such a stack is counted, and not used.
 */
#include <stdio.h>

#include "ground/peek.h"

/* Calls of a stack that are named, from the innermost and from the outermost one on; those between
 * them are left out, and a line says so. A tenth would cut the stacks of frameworks; with ten times
 * more, the different stacks of a recursion would fill the memory of the sampler. */
enum { INNERMOST = 400, OUTERMOST = 100 };
#define LEFT_OUT "(calls left out)\t\t0\n"
/* Calls of a stack that are counted. With ten times more, an endless recursion would be read for
 * longer than the time between two samples; with a tenth, one that ends would lose its callers. */
enum { DEEPEST = 100 * 1000 };
/* Bytes of PHP's stack that are copied at once: a page of it, which the engine takes at a time. */
enum { PIECE = 256 * 1024 };
/* Bytes that are copied at once of pages that were full before, and of the stacks of fibers, which
 * have so many. */
enum { BELOW = 16 * 1024 };
/* PHP's allocator takes memory in such pieces, which begin at a multiple of it. */
enum { CHUNK = 2 * 1024 * 1024 };
/* Functions of a sample that are remembered: a recursion is read as fast as one call of it. When
 * deep stacks take longer to read than flat ones, they are seen too rarely. */
enum { KNOWN = 512 };
enum { LONGEST_NAME = 512 };
/* A line has three columns: a name of two strings, a file, a number. */
enum { LONGEST_LINE = 3 * LONGEST_NAME + 64 };

static char text[256 * 1024];
static size_t used;
/* Functions of this sample, and their lines in the text. */
static struct {
    const zend_function *function;
    size_t at, len;
} known[KNOWN];
static struct {
    const char *at;
    size_t len;
    _Alignas(16) char bytes[PIECE];
} piece;

/* Fields end with tabs and lines with newlines, so names have neither. */
static void add(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)at[i];
        text[used++] = c < 32 || c == 127 ? '?' : (char)c;
    }
}

static bool add_string(const zend_string *string)
{
    struct {
        zend_string head;
        char more[LONGEST_NAME];
    } copy;
    const size_t head = offsetof(zend_string, val);
    const size_t in_page = 4096 - (uintptr_t)string % 4096;
    const size_t first = head + 96 < in_page ? head + 96 : head;
    size_t len;

    if (!string || !peek(&copy, string, first) || GC_TYPE(&copy.head) != IS_STRING) {
        return false;
    }
    /* Not the one of the second look: the worker may have another string there by then. */
    len = copy.head.len < LONGEST_NAME ? copy.head.len : LONGEST_NAME;
    if (head + len > first && !peek(&copy, string, head + len)) {
        return false;
    }
    /* A class without a name has its file behind a NUL: the column of the file says the same. */
    add((char *)&copy + head, strnlen((char *)&copy + head, len));
    return true;
}

static void add_number(uint32_t n)
{
    used += (size_t)snprintf(text + used, 12, "%u", n);
}

static bool add_name(const zend_class_entry *class, const zend_string *function)
{
    const zend_string *name;

    if (class) {
        if (!peek(&name, &class->name, sizeof(name)) || !add_string(name)) {
            return false;
        }
        add("::", 2);
    }
    return add_string(function);
}

/* Calls that the engine makes for itself have no name, and add nothing. */
static bool read_call(const zend_function *at)
{
    zend_op_array code;
    zend_internal_function inner;
    uint8_t type;

    if (!peek(&type, at, sizeof(type))) {
        return false;
    }
    if (type == ZEND_INTERNAL_FUNCTION) {
        if (!peek(&inner, at, sizeof(inner))) {
            return false;
        }
        if (inner.function_name) {
            if (!add_name(inner.scope, inner.function_name)) {
                return false;
            }
            memcpy(text + used, "\t\t0\n", 4);
            used += 4;
        }
        return true;
    }
    if ((type != ZEND_USER_FUNCTION && type != ZEND_EVAL_CODE) || !peek(&code, at, sizeof(code))) {
        return false;
    }
    if (code.function_name && !add_name(code.scope, code.function_name)) {
        return false;
    }
    text[used++] = '\t';
    if (!add_string(code.filename)) {
        return false;
    }
    text[used++] = '\t';
    add_number(code.line_start);
    text[used++] = '\n';
    return true;
}

static bool add_call(const zend_function *function)
{
    const size_t place = (uintptr_t)function / 64 % KNOWN, begin = used;

    if (known[place].function == function) {
        memcpy(text + used, text + known[place].at, known[place].len);
        used += known[place].len;
        return true;
    }
    if (!read_call(function)) {
        return false;
    }
    known[place].function = function;
    known[place].at = begin;
    known[place].len = used - begin;
    return true;
}

static bool is_in_piece(const zend_execute_data *frame)
{
    /* A torn pointer may be any number, so it is subtracted, where a sum could wrap around. */
    const uintptr_t offset = (uintptr_t)frame - (uintptr_t)piece.at;

    return piece.len >= sizeof(*frame) && offset <= piece.len - sizeof(*frame);
}

static bool copy_to_piece(const char *begin, size_t len)
{
    piece.at = begin;
    piece.len = peek(piece.bytes, begin, len) ? len : 0;
    return piece.len > 0;
}

/* Callers lie below in the same page of the stack, or in one that was full before. */
static bool get_frame(zend_execute_data *to, const zend_execute_data *from)
{
    if (!is_in_piece(from)) {
        const uintptr_t in_chunk = (uintptr_t)from % CHUNK;
        const size_t below = in_chunk < BELOW - sizeof(*to) ? in_chunk : BELOW - sizeof(*to);

        if (!copy_to_piece((const char *)from - below, below + sizeof(*to))) {
            return peek(to, from, sizeof(*to));
        }
    }
    memcpy(to, piece.bytes + ((const char *)from - piece.at), sizeof(*to));
    return true;
}

static bool has_room(void)
{
    return used < sizeof(text) - 2 * LONGEST_LINE;
}

/* The innermost first. */
static bool add_calls(const zend_execute_data *next)
{
    static const zend_function *outer[OUTERMOST];
    zend_execute_data frame;
    int depth = 0, beyond = 0;

    for (; next && depth < DEEPEST; depth++) {
        if (!get_frame(&frame, next)) {
            return false;
        }
        next = frame.prev_execute_data;
        if (!frame.func) {
            continue;
        }
        if (depth >= INNERMOST || !has_room()) {
            outer[beyond++ % OUTERMOST] = frame.func;
        } else if (!add_call(frame.func)) {
            return false;
        }
    }
    if (next || beyond > OUTERMOST || !has_room()) {
        memcpy(text + used, LEFT_OUT, sizeof(LEFT_OUT) - 1);
        used += sizeof(LEFT_OUT) - 1;
    }
    /* Without an end there is no outermost call. */
    for (int i = beyond > OUTERMOST ? beyond - OUTERMOST : 0; !next && i < beyond; i++) {
        if (has_room() && !add_call(outer[i % OUTERMOST])) {
            return false;
        }
    }
    return true;
}

/* A line for the request, with its state and its URI, and one for each call; instead of all of them
 * one that says that they are torn. */
static void add_stack(char state, const shim_request *request, const zend_execute_data *frames)
{
    const size_t begin = used;
    const shim_text *uri = &request->field[SHIM_URI];
    char chars[LONGEST_NAME];
    const size_t len = uri->len < sizeof(chars) ? uri->len : sizeof(chars);
    bool whole;

    text[used++] = state;
    whole = peek(chars, uri->at, len);
    if (whole) {
        add(chars, len);
        text[used++] = '\n';
        whole = add_calls(frames);
    }
    if (!whole) {
        used = begin;
        memset(known, 0, sizeof(known));
        text[used++] = SHIM_SAMPLE_TORN;
        text[used++] = '\n';
    }
    text[used++] = '\n';
}

/* Where the engine is, in one go: these fields lie together. */
static bool copy_piece(const zend_execute_data **frames)
{
    const char *const begin = (const char *)&EG(vm_stack_top);
    char fields[sizeof(executor_globals)];
    const size_t len = (size_t)((const char *)(&EG(current_execute_data) + 1) - begin);
    const char *top, *bottom;

    if (!peek(fields, begin, len)) {
        return false;
    }
#define FIELD(name) (fields + ((const char *)&EG(name) - begin))
    memcpy(frames, FIELD(current_execute_data), sizeof(*frames));
    memcpy(&top, FIELD(vm_stack_top), sizeof(top));
    memcpy(&bottom, FIELD(vm_stack), sizeof(bottom));
#undef FIELD
    piece.len = 0;
    if (bottom && top > bottom) {
        const size_t filled = (size_t)(top - bottom) < PIECE ? (size_t)(top - bottom) : PIECE;

        copy_to_piece(top - filled, filled);
    }
    return true;
}

/* In async mode the others are in a list, which may be in the middle of a change: so it has no more
 * members than there can be requests. */
static void add_waiting(const request_state *running)
{
    const request_state *at;
    request_state state;
    uint32_t left = shim.config->concurrency;

    if (left == 0 || !peek(&at, &oldest_request, sizeof(at))) {
        return;
    }
    for (; at && left > 0 && peek(&state, at, sizeof(state)); at = state.newer, left--) {
        const shim_request *request = at == running ? NULL : peek_request(&state);
        if (!has_room()) {
            return;
        }
        if (request && state.frames) {
            add_stack(SHIM_SAMPLE_WAITS, request, state.frames);
        }
    }
}

int shim_sample(int pid, int memory, const char **to, size_t *len)
{
    const request_state *running;
    const zend_execute_data *frames;
    const shim_request *request;
    request_state state;

    peek_at(pid, memory);
    used = 0;
    memset(known, 0, sizeof(known));
    *to = text;
    *len = 0;
    if (!peek(&running, &serving, sizeof(running)) || !copy_piece(&frames)) {
        return 0;
    }
    if (peek(&state, running, sizeof(state)) && (request = peek_request(&state))) {
        add_stack(SHIM_SAMPLE_RUNS, request, frames);
    }
    add_waiting(running);
    *len = used;
    return 1;
}
