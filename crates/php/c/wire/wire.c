/* See wire.h. An answer that a request has left unread is never taken for the reset's: each
 * protocol has one command in its reset whose answer nothing else has. */
#include "wire/wire_kinds.h"
#include "wire/wire_text.h"

static const wire_kind *const kinds[] = {&wire_mysql, &wire_postgresql, &wire_redis};
enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

static void recognise(wire *w, const unsigned char *at, size_t len)
{
    for (size_t i = 0; i < KINDS; i++) {
        int begins = kinds[i]->begins(w, at, len);
        if (begins) {
            w->kind = begins > 0 ? kinds[i] : NULL;
            return;
        }
    }
    wire_refuse(w, "it is encrypted, or speaks a protocol that cannot be reset");
}

void wire_sent(wire *w, const unsigned char *at, size_t len)
{
    if (len == 0) {
        return;
    }
    if (w->kind) {
        w->kind->sent(w, at, len);
    } else {
        recognise(w, at, len);
    }
}

void wire_received(wire *w, const unsigned char *at, size_t len)
{
    for (size_t i = 0; !w->kind && i < KINDS; i++) {
        if (kinds[i]->received) {
            kinds[i]->received(w, at, len);
        }
    }
}

const char *wire_question(wire *w)
{
    w->is_asking = 1;
    if (w->kind) {
        w->kind->ask(w);
    } else {
        wire_refuse(w, "it speaks a protocol that cannot be reset");
    }
    return w->refusal;
}

const char *wire_make_reset(wire *w)
{
    w->is_asking = 0;
    w->next.len = w->next.answers = 0;
    w->kind->make_reset(w);
    return w->refusal;
}

void wire_seed(wire *w, uint64_t random)
{
    for (size_t i = 0; w->seed_at && i < 16; i++, random /= 10) {
        w->next.at[w->seed_at + i] = (unsigned char)('0' + random % 10);
    }
}

long wire_answer(wire *w, const unsigned char *at, size_t len, unsigned *answered)
{
    return len == 0 ? 0 : w->kind->answer(w, at, len, answered);
}
