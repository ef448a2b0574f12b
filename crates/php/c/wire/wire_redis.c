/* Redis: see wire_kinds.h. Answers differ in the first one: +RESET, which no other command has. */
#include <string.h>

#include "wire/wire_kinds.h"
#include "wire/wire_text.h"

/* "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n": a number, then so many texts. Returns 0 unless it is there
 * and whole. */
static size_t number_at(const unsigned char *at, size_t len, char mark, size_t *number)
{
    size_t used = 1;

    *number = 0;
    if (len < 4 || at[0] != mark) {
        return 0;
    }
    for (; used < len && at[used] >= '0' && at[used] <= '9' && used < 8; used++) {
        *number = *number * 10 + (size_t)(at[used] - '0');
    }
    return used > 1 && used + 2 <= len && at[used] == '\r' && at[used + 1] == '\n' ? used + 2 : 0;
}

static size_t command_at(const unsigned char *at, size_t len, const unsigned char **name,
                         size_t *name_len)
{
    size_t count, size, used = number_at(at, len, '*', &count);

    *name = NULL;
    for (size_t i = 0; used && i < count; i++) {
        size_t head = number_at(at + used, len - used, '$', &size);
        if (!head || size + 2 > len - used - head) {
            return 0;
        }
        if (i == 0) {
            *name = at + used + head;
            *name_len = size;
        }
        used += head + size + 2;
    }
    return *name ? used : 0;
}

static int is_named(const unsigned char *name, size_t len, const char *word)
{
    return len == strlen(word) && wire_begins_with(name, len, word);
}

static void sent(wire *w, const unsigned char *at, size_t len)
{
    const unsigned char *name;
    size_t name_len, used;

    for (; len && (used = command_at(at, len, &name, &name_len)); at += used, len -= used) {
        if (is_named(name, name_len, "AUTH") || is_named(name, name_len, "SELECT") ||
            is_named(name, name_len, "CLIENT")) {
            wire_say(w, &w->opening, at, used);
            w->opening.answers++;
        } else if (is_named(name, name_len, "HELLO")) {
            wire_refuse(w, "it speaks another version of its protocol than a reset leaves");
        }
    }
    if (len) {
        wire_refuse(w, "more was said when it was opened than can be said again");
    }
}

static void say_command(wire *w, const char *text)
{
    wire_say(w, &w->next, text, strlen(text));
    w->next.answers++;
}

/* What RESET leaves: in Redis 7.0 the exception from eviction; the debugger of scripts, which
 * cannot be left behind other commands, so a script must give what it gave at the opening. That may
 * be an error: an old server, a user who may not. */
static void ask(wire *w)
{
    say_command(w, "*3\r\n$6\r\nCLIENT\r\n$8\r\nNO-EVICT\r\n$3\r\nOFF\r\n");
    say_command(w, "*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n0\r\n");
}

static void make_reset(wire *w)
{
    say_command(w, "*1\r\n$5\r\nRESET\r\n");
    wire_say_opening(w);
    ask(w);
}

static int is_same(const unsigned char *at, size_t len, const void *wanted, size_t wanted_len)
{
    return len == wanted_len && memcmp(at, wanted, len) == 0;
}

/* A line; those to the checks stand in a row in `shown`. */
static long answer(wire *w, const unsigned char *at, size_t len, unsigned *answered)
{
    const unsigned char *end = memmem(at, len, "\r\n", 2),
                        *first = memmem(w->shown, w->shown_len, "\r\n", 2);
    size_t size = end ? (size_t)(end - at) + 2 : 0,
           first_len = first ? (size_t)(first - w->shown) + 2 : 0;
    int is_right;

    if (!end) {
        return 0;
    }
    if (w->is_asking) {
        is_right = size <= sizeof(w->shown) - w->shown_len;
        if (is_right) {
            memcpy(w->shown + w->shown_len, at, size);
            w->shown_len += size;
        }
    } else {
        switch (w->next.answers - *answered) {
        case 1: is_right = is_same(at, size, w->shown + first_len, w->shown_len - first_len); break;
        case 2: is_right = is_same(at, size, w->shown, first_len); break;
        default:
            is_right = *answered == 0 ? is_same(at, size, "+RESET\r\n", 8)
                                      : is_same(at, size, "+OK\r\n", 5);
        }
    }
    ++*answered;
    return is_right ? (long)size : -1;
}

static int begins(wire *w, const unsigned char *at, size_t len)
{
    if (at[0] != '*') {
        return 0;
    }
    sent(w, at, len);
    return 1;
}

const wire_kind wire_redis = {begins, NULL, sent, ask, make_reset, answer};
