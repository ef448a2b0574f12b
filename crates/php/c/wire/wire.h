/* How a connection is made to forget its session: learnt from what was said on it while it was
 * opened.
 *
 *   opened: listen ──► question ──► answers ──► make reset ──► [ reset ──► answers ] …
 *
 * Knows three protocols, and neither sockets nor PHP. What cannot be kept is refused, with a
 * reason. */
#ifndef TOKAMAK_WIRE_H
#define TOKAMAK_WIRE_H

#include <stddef.h>
#include <stdint.h>

enum { WIRE_ROOM = 2048, WIRE_SHOWN = 320 };

typedef struct {
    unsigned answers; /* that the peer gives to it */
    size_t len;
    unsigned char at[WIRE_ROOM];
} wire_text;

typedef struct {
    const struct wire_kind *kind; /* its protocol; NULL: what was said does not show it */
    const char *refusal;      /* NULL: none so far */
    char reason[160];         /* a refusal that names something */
    unsigned server_charset;  /* of MySQL: what a session has unless the client asks for another */
    /* a reset brings back the character set of the log-in; MySQL: the server's */
    int is_mariadb;
    int has_database; /* of MySQL: named by the log-in or chosen after it */
    unsigned char statements; /* of MySQL: 0, several in one query are allowed */
    int is_asking;            /* `next` is the question */
    /* what the session showed at its opening, and has to show after each reset; 0: nothing */
    size_t shown_len;
    unsigned char shown[WIRE_SHOWN];
    size_t seed_at; /* in `next`: digits that have to be others each time; 0: none */
    wire_text opening; /* what set up the session when it was opened */
    wire_text next;    /* to be said: the question, from wire_make_reset() on the reset */
} wire;

/* While the connection is opened: bytes in one direction or the other, as they pass. */
void wire_sent(wire *w, const unsigned char *at, size_t len);
void wire_received(wire *w, const unsigned char *at, size_t len);
/* It is open: `next` asks the server for what has to be known before a reset. Why it cannot be
 * kept; NULL: it can. */
const char *wire_question(wire *w);
/* The question was answered: `next` is the reset. Why it cannot be kept; NULL: it can. */
const char *wire_make_reset(wire *w);
/* Before each reset: the server's random numbers begin with these. */
void wire_seed(wire *w, uint64_t random);

/* Reads one message of the answers to `next`. Returns its length; 0: there is more of it to come;
 * -1: it is not what it should be. `answered` counts the answers that are complete. */
long wire_answer(wire *w, const unsigned char *at, size_t len, unsigned *answered);

#endif
