/* What wire.c and the protocols share. Each server's own reset leaves something; what that is, and
 * what puts it back, say the comments above each protocol's statements. */
#ifndef TOKAMAK_WIRE_KINDS_H
#define TOKAMAK_WIRE_KINDS_H

#include "wire/wire.h"

typedef struct wire_kind {
    /* The client's first bytes: 1, they are of this protocol; -1, they may be followed by some that
     * are. */
    int (*begins)(wire *w, const unsigned char *at, size_t len);
    /* before the client has said anything; may be NULL */
    void (*received)(wire *w, const unsigned char *at, size_t len);
    void (*sent)(wire *w, const unsigned char *at, size_t len);
    void (*ask)(wire *w); /* see wire_question() */
    void (*make_reset)(wire *w);
    long (*answer)(wire *w, const unsigned char *at, size_t len, unsigned *answered);
} wire_kind;

extern const wire_kind wire_mysql, wire_postgresql, wire_redis;

#endif
