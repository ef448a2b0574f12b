/* What every protocol says and refuses in the same way. */
#ifndef TOKAMAK_WIRE_TEXT_H
#define TOKAMAK_WIRE_TEXT_H

#include "wire/wire.h"

void wire_refuse(wire *w, const char *why);
void wire_say(wire *w, wire_text *text, const void *at, size_t len);
/* What set up the session when it was opened, once more. */
void wire_say_opening(wire *w);
/* Whether a statement begins with this word, in capitals or not. */
int wire_begins_with(const unsigned char *at, size_t len, const char *word);

#endif
