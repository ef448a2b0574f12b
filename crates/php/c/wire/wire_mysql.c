/* MySQL and MariaDB: see wire_kinds.h. Answers differ in the last one: that of COM_SET_OPTION is
 * an end-of-file packet as the first one, which no other has. */
#include <stdio.h>
#include <string.h>

#include "wire/wire_kinds.h"
#include "wire/wire_text.h"

static uint32_t little(const unsigned char *at, int bytes)
{
    uint32_t number = 0;

    while (bytes-- > 0) {
        number = number << 8 | at[bytes];
    }
    return number;
}

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

static void say_packet(wire *w, wire_text *text, unsigned char command, const void *at, size_t len)
{
    unsigned char head[5] = {(unsigned char)(len + 1), (unsigned char)((len + 1) >> 8), 0, 0,
                             command};

    wire_say(w, text, head, sizeof(head));
    wire_say(w, text, at, len);
    text->answers++;
}

static void say_statement(wire *w, const char *text)
{
    say_packet(w, &w->next, COM_QUERY, text, strlen(text));
}

/* Capabilities, longest packet, character set, 23 bytes of nothing (the last four are MariaDB's),
 * then texts. */
static int is_mysql(const unsigned char *at, size_t len)
{
    static const unsigned char nothing[19];

    return len >= 36 && at[3] == 1 && little(at, 3) + 4 == len && little(at + 4, 4) & CAN_41 &&
           memcmp(at + 13, nothing, sizeof(nothing)) == 0;
}

static void greet(wire *w, const unsigned char *packet, size_t len)
{
    const unsigned char *at = packet + 36, *end = packet + len, *database = NULL;
    uint32_t can = little(packet + 4, 4);
    unsigned charset = packet[12];

    if (can & CAN_TLS) {
        wire_refuse(w, "it is encrypted");
        return;
    }
    if (can & CAN_COMPRESS) {
        wire_refuse(w, "it is compressed");
        return;
    }
    at = memchr(at, 0, (size_t)(end - at)); /* the user */
    if (at && ++at < end && can & (CAN_SECURE | CAN_LENGTH) && *at < 251 && *at < end - at) {
        database = at + 1 + *at;
    }
    if (!w->is_mariadb && charset != w->server_charset) {
        char text[160];
        int wrote =
            snprintf(text, sizeof(text),
                     "SET character_set_client=%u,character_set_results=%u,collation_connection=%u",
                     charset, charset, charset);
        say_packet(w, &w->opening, COM_QUERY, text, (size_t)wrote);
    }
    if (database && can & CAN_DATABASE && memchr(database, 0, (size_t)(end - database)) &&
        *database) {
        say_packet(w, &w->opening, COM_INIT_DB, database, strlen((const char *)database));
        w->has_database = 1;
    }
    w->statements = can & CAN_STATEMENTS ? 0 : 1;
}

/* What sets up a session when it is opened (PDO::MYSQL_ATTR_INIT_COMMAND, SET NAMES) is said
 * again. */
static void sent(wire *w, const unsigned char *at, size_t len)
{
    while (len >= 4) {
        size_t size = little(at, 3);
        if (size > len - 4) {
            break;
        }
        /* Packets of the log-in count on from the server's. */
        if (size > 0 && at[3] == 0 &&
            (at[4] == COM_INIT_DB ||
             (at[4] == COM_QUERY && wire_begins_with(at + 5, size - 1, "SET ")))) {
            say_packet(w, &w->opening, at[4], at + 5, size - 1);
            w->has_database |= at[4] == COM_INIT_DB;
        }
        at += 4 + size;
        len -= 4 + size;
    }
    if (len) {
        wire_refuse(w, "more was said when it was opened than can be said again");
    }
}

static void received(wire *w, const unsigned char *at, size_t len)
{
    const unsigned char *end = at + len, *after;

    if (w->server_charset || len < 6 || at[3] != 0 || at[4] != 10) {
        return;
    }
    after = memchr(at + 5, 0, len - 5);
    if (after && end - after > 16) { /* thread, 8 bytes of salt, nothing, capabilities */
        w->server_charset = after[16];
        w->is_mariadb = memmem(at, len, "MariaDB", 7) != NULL;
    }
}

/* One row: the user and the role. */
static const char ask_who[] = "SELECT CURRENT_USER(),CURRENT_ROLE()";

/* MariaDB: a name or NULL; MySQL: a list of names in quotes, or NONE. */
static void say_role(wire *w)
{
    const unsigned char *at = w->shown + 1 + w->shown[0], *end = w->shown + w->shown_len;
    char text[3 * WIRE_SHOWN] = "SET ROLE ";
    size_t len = strlen(text);

    if (at >= end || (*at != 251 && *at >= end - at)) {
        wire_refuse(w, "its role cannot be told");
        return;
    }
    if (*at == 251) {
        say_statement(w, "SET ROLE NONE");
        return;
    }
    if (!w->is_mariadb) {
        memcpy(text + len, at + 1, *at);
        say_packet(w, &w->next, COM_QUERY, text, len + *at);
        return;
    }
    end = at + 1 + *at;
    text[len++] = '`';
    while (++at < end) {
        if (*at == '`') {
            text[len++] = '`';
        }
        text[len++] = (char)*at;
    }
    text[len++] = '`';
    say_packet(w, &w->next, COM_QUERY, text, len);
}

/* COM_RESET_CONNECTION leaves: the role; the database; profiling, and its list of other visitors'
 * statements (SHOW PROFILES); FOUND_ROWS(). The list is cut only at the end of a statement that is
 * profiled from its beginning, so that takes three. The last SELECT is the one that FOUND_ROWS()
 * reports, and shows that user and role are those of the opening. */
static void say_reset(wire *w)
{
    say_statement(w, "SET profiling=1");
    say_statement(w, "SET profiling_history_size=0");
    say_statement(w, "SET profiling=0");
    say_packet(w, &w->next, COM_RESET_CONNECTION, NULL, 0);
    if (w->shown_len) {
        say_role(w);
    }
    wire_say_opening(w);
    if (w->shown_len) {
        say_statement(w, ask_who);
    }
}

static void say_end(wire *w)
{
    unsigned char statements[2] = {w->statements, 0};

    say_packet(w, &w->next, COM_SET_OPTION, statements, sizeof(statements));
}

/* The packets are numbered: how many columns, the two of them, the end, a row, the end. */
static int is_right_in_who(wire *w, const unsigned char *packet, size_t size, unsigned *answered)
{
    const unsigned char *at = packet + 4;

    switch (packet[3]) {
    case 1:
        if (*at == 0xff && w->is_asking) { /* an old server without roles */
            ++*answered;
            return 1;
        }
        return size == 1 && *at == 2;
    case 2: case 3:
        return *at < 251;
    case 4:
        return *at == 0xfe;
    case 5:
        if (w->is_asking && size <= sizeof(w->shown) && *at < 251 && *at < size) {
            memcpy(w->shown, at, size);
            w->shown_len = size;
        }
        return size == w->shown_len && memcmp(at, w->shown, size) == 0;
    case 6:
        ++*answered;
        return *at == 0xfe;
    default:
        return 0;
    }
}

static long answer(wire *w, const unsigned char *at, size_t len, unsigned *answered)
{
    unsigned left = w->next.answers - *answered;
    size_t size;

    if (len < 5) {
        return 0;
    }
    size = little(at, 3);
    if (size == 0) {
        return -1;
    }
    if (len < size + 4) {
        return 0;
    }
    if (left == 2 && (w->is_asking || w->shown_len)) {
        return is_right_in_who(w, at, size, answered) ? (long)size + 4 : -1;
    }
    if (at[3] != 1 || at[4] != (left == 1 ? 0xfe : 0)) {
        return -1;
    }
    ++*answered;
    return (long)size + 4;
}

static int begins(wire *w, const unsigned char *at, size_t len)
{
    if (!is_mysql(at, len)) {
        return 0;
    }
    greet(w, at, len);
    return 1;
}

static void ask(wire *w)
{
    /* A reset leaves the session in whatever database a request went to. */
    if (!w->has_database) {
        wire_refuse(w, "it names no database to go back to");
        return;
    }
    say_statement(w, ask_who);
    say_end(w);
}

static void make_reset(wire *w)
{
    say_reset(w);
    say_end(w);
}

const wire_kind wire_mysql = {begins, received, sent, ask, make_reset, answer};
