/* See wire.h.
 *
 * A reset ends with something whose answer nothing else has (MySQL: COM_SET_OPTION, PostgreSQL: an empty query) or begins
 * with it (Redis: RESET). So an answer that a request has left unread is never taken for the reset's. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "wire.h"

static uint32_t little(const unsigned char *at, int bytes)
{
    uint32_t number = 0;

    while (bytes-- > 0) {
        number = number << 8 | at[bytes];
    }
    return number;
}

static uint32_t big(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void refuse(wire *w, const char *why)
{
    if (!w->refusal) {
        w->refusal = why;
    }
}

static void say(wire *w, const void *at, size_t len)
{
    if (len > WIRE_ROOM - w->len) {
        refuse(w, "more was said when it was opened than can be said again");
        return;
    }
    memcpy(w->reset + w->len, at, len);
    w->len += len;
}

static int begins_with(const unsigned char *at, size_t len, const char *word)
{
    size_t wanted = strlen(word);

    while (len > 0 && (*at == ' ' || *at == '\n' || *at == '\t')) {
        at++;
        len--;
    }
    return len >= wanted && strncasecmp((const char *)at, word, wanted) == 0;
}

/* ---- MySQL and MariaDB ---- */

enum {
    COM_INIT_DB = 2,
    COM_QUERY = 3,
    COM_SET_OPTION = 0x1b,
    COM_RESET_CONNECTION = 0x1f,
    CAN_DATABASE = 1 << 3,
    CAN_COMPRESS = 1 << 5,
    CAN_41 = 1 << 9,
    CAN_TLS = 1 << 11,
    CAN_SECURE = 1 << 15,
    CAN_STATEMENTS = 1 << 16,
    CAN_LENGTH = 1 << 21 /* of the password's proof, in a form of its own */
};

static void say_packet(wire *w, unsigned char command, const void *at, size_t len)
{
    unsigned char head[5] = {(unsigned char)(len + 1), (unsigned char)((len + 1) >> 8), 0, 0, command};

    say(w, head, sizeof(head));
    say(w, at, len);
    w->answers++;
}

/* Capabilities, longest packet, character set, 23 bytes of nothing (the last four are MariaDB's), then texts. */
static int is_mysql(const unsigned char *at, size_t len)
{
    static const unsigned char nothing[19];

    return len >= 36 && at[3] == 1 && little(at, 3) + 4 == len && little(at + 4, 4) & CAN_41 &&
           memcmp(at + 13, nothing, sizeof(nothing)) == 0;
}

static void greet_mysql(wire *w, const unsigned char *packet, size_t len)
{
    const unsigned char *at = packet + 36, *end = packet + len, *database = NULL;
    uint32_t can = little(packet + 4, 4);
    unsigned charset = packet[12];

    if (can & CAN_TLS) {
        refuse(w, "it is encrypted");
        return;
    }
    if (can & CAN_COMPRESS) {
        refuse(w, "it is compressed");
        return;
    }
    at = memchr(at, 0, (size_t)(end - at)); /* the user */
    if (at && ++at < end && can & (CAN_SECURE | CAN_LENGTH) && *at < 251 && *at < end - at) {
        database = at + 1 + *at;
    }
    if (!database || !(can & CAN_DATABASE) || !memchr(database, 0, (size_t)(end - database)) || !*database) {
        refuse(w, "it names no database to go back to");
        return;
    }
    say_packet(w, COM_RESET_CONNECTION, NULL, 0);
    if (!w->keeps_charset && charset != w->server_charset) {
        char text[160];
        int wrote = snprintf(text, sizeof(text),
                             "SET character_set_client=%u,character_set_results=%u,collation_connection=%u", charset, charset,
                             charset);
        say_packet(w, COM_QUERY, text, (size_t)wrote);
    }
    /* A reset leaves the session in whatever database a request went to. */
    say_packet(w, COM_INIT_DB, database, strlen((const char *)database));
    w->statements = can & CAN_STATEMENTS ? 0 : 1;
}

/* What settles a session when it is opened (PDO::MYSQL_ATTR_INIT_COMMAND, SET NAMES) is said again. */
static void learn_mysql(wire *w, const unsigned char *at, size_t len)
{
    while (len >= 4) {
        size_t size = little(at, 3);
        if (size > len - 4) {
            break;
        }
        /* Packets of the log-in count on from the server's. */
        if (size > 0 && at[3] == 0 && (at[4] == COM_INIT_DB || (at[4] == COM_QUERY && begins_with(at + 5, size - 1, "SET ")))) {
            say_packet(w, at[4], at + 5, size - 1);
        }
        at += 4 + size;
        len -= 4 + size;
    }
    if (len) {
        refuse(w, "more was said when it was opened than can be said again");
    }
}

void wire_received(wire *w, const unsigned char *at, size_t len)
{
    const unsigned char *end = at + len, *after;

    if (w->protocol != WIRE_SILENT || w->server_charset || len < 6 || at[3] != 0 || at[4] != 10) {
        return;
    }
    after = memchr(at + 5, 0, len - 5);
    if (after && end - after > 16) { /* thread, 8 bytes of salt, nothing, capabilities */
        w->server_charset = after[16];
        w->keeps_charset = memmem(at, len, "MariaDB", 7) != NULL;
    }
}

static long answer_of_mysql(const wire *w, const unsigned char *at, size_t len, unsigned *answered)
{
    int is_last = *answered + 1 == w->answers;
    size_t size;

    if (len < 5) {
        return 0;
    }
    size = little(at, 3);
    if (at[3] != 1 || at[4] != (is_last ? 0xfe : 0)) {
        return -1;
    }
    if (len < size + 4) {
        return 0;
    }
    ++*answered;
    return (long)size + 4;
}

/* ---- PostgreSQL ---- */

enum { STARTUP = 196608, ASK_FOR_TLS = 80877103, ASK_FOR_GSS = 80877104 };

static void say_query(wire *w, const void *text, size_t len)
{
    uint32_t size = (uint32_t)len + 5;
    unsigned char head[5] = {'Q', (unsigned char)(size >> 24), (unsigned char)(size >> 16), (unsigned char)(size >> 8),
                             (unsigned char)size};

    say(w, head, sizeof(head));
    say(w, text, len);
    say(w, "", 1);
    w->answers++;
}

static void learn_postgresql(wire *w, const unsigned char *at, size_t len)
{
    while (len >= 5) {
        size_t size = big(at + 1);
        if (size < 4 || size > len - 1) {
            break;
        }
        if (at[0] == 'Q' && begins_with(at + 5, size - 4, "SET ")) {
            say_query(w, at + 5, size - 5);
        }
        at += 1 + size;
        len -= 1 + size;
    }
    if (len) {
        refuse(w, "more was said when it was opened than can be said again");
    }
}

static long answer_of_postgresql(const wire *w, const unsigned char *at, size_t len, unsigned *answered)
{
    static const char discarded[] = "DISCARD ALL";
    int is_last = *answered + 1 == w->answers;
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
    case 'C':
        if (is_last || (*answered == 0 && (size != 4 + sizeof(discarded) || memcmp(at + 5, discarded, sizeof(discarded))))) {
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

/* ---- Redis ---- */

/* "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n": a number, then so many texts. Returns 0 unless it is there and whole. */
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

static size_t command_at(const unsigned char *at, size_t len, const unsigned char **name, size_t *name_len)
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
    return len == strlen(word) && begins_with(name, len, word);
}

static void learn_redis(wire *w, const unsigned char *at, size_t len)
{
    const unsigned char *name;
    size_t name_len, used;

    for (; len && (used = command_at(at, len, &name, &name_len)); at += used, len -= used) {
        if (is_named(name, name_len, "AUTH") || is_named(name, name_len, "SELECT") || is_named(name, name_len, "CLIENT")) {
            say(w, at, used);
            w->answers++;
        } else if (is_named(name, name_len, "HELLO")) {
            refuse(w, "it speaks another version of its protocol than a reset leaves");
        }
    }
    if (len) {
        refuse(w, "more was said when it was opened than can be said again");
    }
}

static long answer_of_redis(const unsigned char *at, size_t len, unsigned *answered)
{
    const char *wanted = *answered == 0 ? "+RESET\r\n" : "+OK\r\n";
    size_t size = strlen(wanted);

    if (memcmp(at, wanted, len < size ? len : size) != 0) {
        return -1;
    }
    if (len < size) {
        return 0;
    }
    ++*answered;
    return (long)size;
}

/* ---- all of them ---- */

static void recognise(wire *w, const unsigned char *at, size_t len)
{
    if (is_mysql(at, len)) {
        w->protocol = WIRE_MYSQL;
        greet_mysql(w, at, len);
    } else if (len >= 8 && big(at) == len && big(at + 4) == STARTUP) {
        w->protocol = WIRE_POSTGRESQL;
        say_query(w, "DISCARD ALL", 11);
    } else if (len == 8 && big(at) == 8 && (big(at + 4) == ASK_FOR_TLS || big(at + 4) == ASK_FOR_GSS)) {
        return; /* the server may say no, and the beginning comes after that */
    } else if (at[0] == '*') {
        static const char reset[] = "*1\r\n$5\r\nRESET\r\n";
        w->protocol = WIRE_REDIS;
        say(w, reset, sizeof(reset) - 1);
        w->answers++;
        learn_redis(w, at, len);
    } else {
        w->protocol = WIRE_OTHER;
        refuse(w, "it is encrypted, or speaks a protocol that cannot be reset");
    }
}

void wire_sent(wire *w, const unsigned char *at, size_t len)
{
    if (len == 0) {
        return;
    }
    switch (w->protocol) {
    case WIRE_SILENT: recognise(w, at, len); break;
    case WIRE_MYSQL: learn_mysql(w, at, len); break;
    case WIRE_POSTGRESQL: learn_postgresql(w, at, len); break;
    case WIRE_REDIS: learn_redis(w, at, len); break;
    case WIRE_OTHER: break;
    }
}

const char *wire_settle(wire *w)
{
    unsigned char statements[2] = {w->statements, 0};

    switch (w->protocol) {
    case WIRE_SILENT: case WIRE_OTHER: refuse(w, "it speaks a protocol that cannot be reset"); break;
    case WIRE_MYSQL: say_packet(w, COM_SET_OPTION, statements, sizeof(statements)); break;
    case WIRE_POSTGRESQL: say_query(w, "", 0); break;
    case WIRE_REDIS: break;
    }
    return w->refusal;
}

long wire_answer(const wire *w, const unsigned char *at, size_t len, unsigned *answered)
{
    switch (w->protocol) {
    case WIRE_MYSQL: return answer_of_mysql(w, at, len, answered);
    case WIRE_POSTGRESQL: return answer_of_postgresql(w, at, len, answered);
    case WIRE_REDIS: return answer_of_redis(at, len, answered);
    case WIRE_SILENT: case WIRE_OTHER: break;
    }
    return -1;
}
