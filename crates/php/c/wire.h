/* How a connection is made to forget its session: learnt from what was said on it while it was opened.
 *
 * Knows the beginnings of three protocols, and neither sockets nor PHP. What cannot be kept is refused, with a reason. */
#ifndef TOKAMAK_WIRE_H
#define TOKAMAK_WIRE_H

#include <stddef.h>

typedef enum { WIRE_SILENT, WIRE_MYSQL, WIRE_POSTGRESQL, WIRE_REDIS, WIRE_OTHER } wire_protocol;

enum { WIRE_ROOM = 2048 };

typedef struct {
    wire_protocol protocol;
    const char *refusal;      /* NULL: none so far */
    unsigned server_charset;  /* of MySQL: what a session has unless the client asks for another */
    int keeps_charset;        /* MariaDB: a reset brings back what the client asked for; MySQL: the server's */
    unsigned char statements; /* of MySQL: 0, several in one query are allowed */
    unsigned answers;         /* to a reset */
    size_t len;
    unsigned char reset[WIRE_ROOM]; /* what is said to reset the session, and to settle it again as it was opened */
} wire;

/* While the connection is opened: bytes in one direction or the other, as they pass. */
void wire_sent(wire *w, const unsigned char *at, size_t len);
void wire_received(wire *w, const unsigned char *at, size_t len);
/* It is open. Why it cannot be kept; NULL: it can. */
const char *wire_settle(wire *w);

/* Reads one message of the answer to a reset. Returns its length; 0: there is more of it to come; -1: it is not what it
 * should be. `answered` counts the answers that are complete. */
long wire_answer(const wire *w, const unsigned char *at, size_t len, unsigned *answered);

#endif
