/* What every protocol says and refuses in the same way. */
#include <string.h>
#include <strings.h>

#include "wire/wire_text.h"

void wire_refuse(wire *w, const char *why)
{
    if (!w->refusal) {
        w->refusal = why;
    }
}

void wire_say(wire *w, wire_text *text, const void *at, size_t len)
{
    if (len > WIRE_ROOM - text->len) {
        wire_refuse(w, "more was said when it was opened than can be said again");
        return;
    }
    memcpy(text->at + text->len, at, len);
    text->len += len;
}

void wire_say_opening(wire *w)
{
    wire_say(w, &w->next, w->opening.at, w->opening.len);
    w->next.answers += w->opening.answers;
}

int wire_begins_with(const unsigned char *at, size_t len, const char *word)
{
    size_t wanted = strlen(word);

    while (len > 0 && (*at == ' ' || *at == '\n' || *at == '\t')) {
        at++;
        len--;
    }
    return len >= wanted && strncasecmp((const char *)at, word, wanted) == 0;
}
