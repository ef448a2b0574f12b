/* PostgreSQL: see wire_kinds.h. Answers are distinguished by the last one: an empty query's is an
 * EmptyQueryResponse. */
#include <stdio.h>
#include <string.h>

#include "wire/wire_kinds.h"
#include "wire/wire_text.h"

static uint32_t big(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

enum { STARTUP = 196608, ASK_FOR_TLS = 80877103, ASK_FOR_GSS = 80877104 };

static void say_query(wire *w, wire_text *to, const void *text, size_t len)
{
    uint32_t size = (uint32_t)len + 5;
    unsigned char head[5] = {'Q', (unsigned char)(size >> 24), (unsigned char)(size >> 16),
                             (unsigned char)(size >> 8), (unsigned char)size};

    wire_say(w, to, head, sizeof(head));
    wire_say(w, to, text, len);
    wire_say(w, to, "", 1);
    to->answers++;
}

/* Extensions of which nothing is left in a session that DISCARD ALL does not reach. Others may have
 * names for connections (dblink), variables of a language (plperl) or switches of their own
 * (isn). */
static const char ask_for_strangers[] =
    "SELECT extname FROM pg_catalog.pg_extension WHERE extname <> ALL "
    "('{adminpack,amcheck,autoinc,bloom,btree_gin,"
    "btree_gist,citext,cube,dict_int,dict_xsyn,earthdistance,fuzzystrmatch,hstore,insert_username,"
    "intagg,intarray,lo,ltree,"
    "moddatetime,pageinspect,pg_buffercache,pg_freespacemap,pg_prewarm,pg_stat_statements,pg_trgm,"
    "pg_visibility,"
    "pg_walinspect,pgcrypto,pgrowlocks,pgstattuple,plpgsql,postgis,postgis_raster,postgis_topology,"
    "refint,seg,sslinfo,"
    "tablefunc,tcn,tsm_system_rows,tsm_system_time,unaccent,uuid-ossp,vector}') ORDER BY 1 LIMIT 1";

/* A row of one column: its count, the length of the value, the value. */
static void learn_stranger(wire *w, const unsigned char *message, size_t size)
{
    size_t len = size >= 10 ? big(message + 7) : 0;

    snprintf(w->reason, sizeof(w->reason),
             "the database has the extension %.*s, which may keep things in a session",
             (int)(len <= size - 10 && len < 64 ? len : 0), message + 11);
    wire_refuse(w, w->reason);
}

static const char seed_again[] = "SET seed=0.0000000000000000";

/* DISCARD ALL leaves random() as setseed() has left it. It goes back to the role that ALTER ROLE
 * has given the user. */
static void make_reset(wire *w)
{
    say_query(w, &w->next, "DISCARD ALL", 11);
    say_query(w, &w->next, seed_again, sizeof(seed_again) - 1);
    w->seed_at = w->next.len - 1 - 16;
    wire_say_opening(w);
    say_query(w, &w->next, "", 0);
}

static void sent(wire *w, const unsigned char *at, size_t len)
{
    while (len >= 5) {
        size_t size = big(at + 1);
        if (size < 4 || size > len - 1) {
            break;
        }
        if (at[0] == 'Q' && wire_begins_with(at + 5, size - 4, "SET ")) {
            say_query(w, &w->opening, at + 5, size - 5);
        }
        at += 1 + size;
        len -= 1 + size;
    }
    if (len) {
        wire_refuse(w, "more was said when it was opened than can be said again");
    }
}

static long answer(wire *w, const unsigned char *at, size_t len, unsigned *answered)
{
    static const char discarded[] = "DISCARD ALL";
    int is_last = *answered + 1 == w->next.answers;
    size_t size;

    if (len < 5) {
        return 0;
    }
    size = big(at + 1);
    if (size < 4) {
        return -1;
    }
    if (len < size + 1) {
        return 0;
    }
    switch (at[0]) {
    case 'N': case 'S': case 'A': /* notices, settings that changed, notifications on their way */
        break;
    case 'D':
        learn_stranger(w, at, size);
        /* fall through */
    case 'T':
        if (!w->is_asking || is_last) {
            return -1;
        }
        break;
    case 'C':
        if (is_last ||
            (*answered == 0 && !w->is_asking &&
             (size != 4 + sizeof(discarded) || memcmp(at + 5, discarded, sizeof(discarded))))) {
            return -1;
        }
        break;
    case 'I': /* to the empty query */
        if (!is_last) {
            return -1;
        }
        break;
    case 'Z':
        if (size != 5 || at[5] != 'I') {
            return -1;
        }
        ++*answered;
        break;
    default:
        return -1;
    }
    return (long)size + 1;
}

static int begins(wire *w, const unsigned char *at, size_t len)
{
    (void)w;
    if (len == 8 && big(at) == 8 && (big(at + 4) == ASK_FOR_TLS || big(at + 4) == ASK_FOR_GSS)) {
        return -1; /* the server may say no, and the beginning comes after that */
    }
    return len >= 8 && big(at) == len && big(at + 4) == STARTUP;
}

static void ask(wire *w)
{
    say_query(w, &w->next, ask_for_strangers, sizeof(ask_for_strangers) - 1);
    say_query(w, &w->next, "", 0);
}

const wire_kind wire_postgresql = {begins, NULL, sent, ask, make_reset, answer};
