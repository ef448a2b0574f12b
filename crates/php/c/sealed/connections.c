/* Connections that sealed mode keeps across requests.
 *
 *   worker:   fork ──► open ──► first reset ──► image_extend ──► [ request ──► reset sent ──► roll back ──► answer read ]
 *                       │                                                          │                           │
 *                       └── failed: roll back, again later                         └── taint: leave ◄──────────┘
 *
 * A callback of the boot opens them, in each worker, in the ordinary ways of PHP. What that left in
 * memory becomes the worker's own private delta to the image, so every request finds the
 * connections open, and both ends agree on their state: the peer's session is reset after each
 * request that has used it. What passes while they are opened is listened to (interpose.c), so no
 * driver has to be known. All of them are kept, or none.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sealed/connections.h"
#include "ground/state.h"
#include "image.h"
#include "process/descriptors.h"
#include "wire/wire.h"

enum {
    MOST = 16,
    PATIENCE = 2000,  /* ms for the answer to a reset */
    LONGEST_PAUSE = 60 /* s between two attempts to open */
};

typedef struct {
    int fd;
    /* of the descriptor, as F_GETFL: blocking or not is not in PHP's memory alone */
    int flags;
    int is_used;    /* since its last reset */
    int is_waiting; /* for the answer to one */
    wire wire;
} connection;

/* In the persistent region. */
typedef struct {
    int is_opening, is_kept;
    int first_fd; /* descriptors from here on are the callback's */
    int pause;
    time_t again_at;
    size_t count;
    connection all[MOST];
} connections;

static connections *held;   /* NULL: nothing is to be kept */
/* shared by all workers of the image: what the callback does cannot be kept */
static int *is_hopeless;
static zval opener;         /* undefined: there is none */

size_t connections_size(void)
{
    return sizeof(connections);
}

/* ---- what passes ---- */

static connection *find(int fd)
{
    for (size_t i = 0; i < held->count; i++) {
        if (held->all[i].fd == fd) {
            return &held->all[i];
        }
    }
    return NULL;
}

/* The connection behind a descriptor of the callback; NULL: it is something else. */
static connection *find_or_learn(int fd)
{
    connection *c = find(fd);
    struct stat st;

    if (c || fd < held->first_fd || held->count == MOST || fstat(fd, &st) != 0 ||
        !S_ISSOCK(st.st_mode)) {
        return c;
    }
    c = &held->all[held->count++];
    memset(c, 0, sizeof(*c));
    c->fd = fd;
    return c;
}

void connections_note_sent(int fd, const void *at, size_t len)
{
    connection *c;

    if (!held) {
        return;
    }
    if (!held->is_opening) {
        c = find(fd);
        if (c) {
            c->is_used = 1;
        }
    } else if ((c = find_or_learn(fd))) {
        wire_sent(&c->wire, at, len);
    }
}

/* In pieces, or through another descriptor: while it is opened that is not listened to. */
void connections_note_used(int fd)
{
    static const unsigned char unknown[] = "?";

    connections_note_sent(fd, unknown, 1);
}

void connections_note_closed(int fd)
{
    connection *c = held && held->is_opening ? find(fd) : NULL;

    if (c) {
        *c = held->all[--held->count];
    }
}

ssize_t connections_received(int fd, const void *at, size_t room, ssize_t got)
{
    connection *c = got > 0 && held && held->is_opening ? find_or_learn(fd) : NULL;

    if (c) {
        /* Who only asks for a length gets more than there was room for. */
        wire_received(&c->wire, at, (size_t)got < room ? (size_t)got : room);
    }
    return got;
}

/* Libraries that look whether they were forked (OpenSSL's random numbers) see another process at
 * work when they are next called. Otherwise their state would be part of the private delta, and
 * every request draw the same numbers. */
pid_t connections_getpid(void)
{
    return (pid_t)(held && held->is_opening ? syscall(SYS_getppid) : syscall(SYS_getpid));
}

/* ---- the callback ---- */

ZEND_FUNCTION(tokamak_keep_connections)
{
    zend_fcall_info fci;
    zend_fcall_info_cache fcc;

    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_FUNC(fci, fcc)
    ZEND_PARSE_PARAMETERS_END();

    zend_release_fcall_info_cache(&fcc);
    if (!shim.sealed || serving->stage != STAGE_BOOT) {
        RETURN_FALSE;
    }
    zval_ptr_dtor(&opener);
    ZVAL_COPY(&opener, &fci.function_name);
    RETURN_TRUE;
}

void connections_learn(void *memory)
{
    if (Z_ISUNDEF(opener)) {
        return;
    }
    is_hopeless =
        mmap(NULL, sizeof(*is_hopeless), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (is_hopeless != MAP_FAILED) {
        held = memory;
    }
}

static time_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

int connections_may_be_kept(void)
{
    return held != NULL;
}

int connections_are_wanted(void)
{
    return held && !held->is_kept && !*is_hopeless && now() >= held->again_at;
}

static int call_opener(void)
{
    volatile int done = 0;
    zval result;

    ZVAL_UNDEF(&result);
    zend_try {
        done =
            call_user_function(NULL, NULL, &opener, &result, 0, NULL) == SUCCESS && !EG(exception);
        if (EG(exception)) {
            zend_exception_error(EG(exception), E_WARNING);
        }
        zval_ptr_dtor(&result);
    } zend_end_try();
    return done;
}

/* For good. `fd`: the one because of which; -1: none. */
static void give_up(int fd, const char *why)
{
    char peer[160] = "", line[512];
    int len;

    if (fd != -1) {
        descriptors_describe_peer(fd, peer, sizeof(peer));
    }
    *is_hopeless = 1;
    held->count = 0;
    len = snprintf(line, sizeof(line), "no connection is kept: %s%s%s; each request opens its own",
                   peer, *peer ? ": " : "", why);
    rust_log(SHIM_WARN, line, (size_t)len);
}

static void try_again_later(const char *why)
{
    char line[256];
    int len;

    held->count = 0;
    held->pause = held->pause == 0                  ? 1
                  : held->pause * 2 < LONGEST_PAUSE ? held->pause * 2
                                                    : LONGEST_PAUSE;
    held->again_at = now() + held->pause;
    len = snprintf(line, sizeof(line), "no connection is kept, because %s; tried again in %d s",
                   why, held->pause);
    rust_log(SHIM_WARN, line, (size_t)len);
}

static int is_known(int fd)
{
    return find(fd) != NULL;
}

/* Says what `words` finds to be said on each connection, and reads the answers. */
static int exchange_messages(const char *(*words)(wire *))
{
    for (size_t i = 0; i < held->count; i++) {
        connection *c = &held->all[i];
        const char *refusal = words(&c->wire);
        if (refusal) {
            give_up(c->fd, refusal);
            return 0;
        }
        c->flags = fcntl(c->fd, F_GETFL);
        c->is_used = 1;
    }
    if (connections_reset() != 0 || connections_await() != 0) {
        try_again_later("a session could not be reset");
        return 0;
    }
    return 1;
}

int connections_open(void)
{
    int opened, stranger;

    held->count = 0;
    held->first_fd = descriptors_first();
    held->is_opening = 1;
    opened = call_opener();
    held->is_opening = 0;
    if (image_taint()) {
        give_up(-1, image_taint());
        return 0;
    }
    if (!opened) {
        try_again_later("the callback failed");
        return 0;
    }
    stranger = descriptors_find_stranger(is_known);
    if (stranger != -1) {
        give_up(stranger,
                "it is no connection, or one on which nothing was said (a ping would do)");
        return 0;
    }
    /* The first reset makes the first request's session that of all others. */
    return exchange_messages(wire_question) && exchange_messages(wire_make_reset);
}

void connections_forget(void)
{
    give_up(-1, "they could not be added to the image");
}

void connections_keep(void)
{
    held->is_kept = 1;
}

/* ---- resets ---- */

int connections_reset(void)
{
    for (size_t i = 0; held && i < held->count; i++) {
        connection *c = &held->all[i];
        uint64_t random;
        if (!c->is_used) {
            continue;
        }
        if (c->wire.seed_at) {
            if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random)) {
                return -1;
            }
            wire_seed(&c->wire, random);
        }
        c->is_used = 0;
        c->is_waiting = 1;
        if (syscall(SYS_fcntl, c->fd, F_SETFL, c->flags) != 0 ||
            syscall(SYS_sendto, c->fd, c->wire.next.at, c->wire.next.len,
                    MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0) != (long)c->wire.next.len) {
            return -1;
        }
    }
    return 0;
}

static int await(connection *c)
{
    unsigned char text[4096];
    unsigned answered = 0;
    size_t len = 0;

    while (answered < c->wire.next.answers) {
        long used = wire_answer(&c->wire, text, len, &answered);
        struct pollfd ask = {.fd = c->fd, .events = POLLIN};
        if (used < 0 || (used == 0 && len == sizeof(text))) {
            return -1;
        }
        if (used > 0) {
            len -= (size_t)used;
            memmove(text, text + used, len);
            continue;
        }
        used =
            syscall(SYS_recvfrom, c->fd, text + len, sizeof(text) - len, MSG_DONTWAIT, NULL, NULL);
        if (used == 0 || (used < 0 && (errno != EAGAIN || poll(&ask, 1, PATIENCE) != 1))) {
            return -1;
        }
        len += used > 0 ? (size_t)used : 0;
    }
    c->is_waiting = 0;
    return len == 0 ? 0 : -1;
}

int connections_await(void)
{
    for (size_t i = 0; held && i < held->count; i++) {
        if (held->all[i].is_waiting && await(&held->all[i]) != 0) {
            return -1;
        }
    }
    return 0;
}

int connections_stale(void)
{
    struct pollfd polled[MOST];
    int stale = 0;

    if (!held || !held->is_kept || held->count == 0) {
        return 0;
    }
    for (size_t i = 0; i < held->count; i++) {
        polled[i] = (struct pollfd){.fd = held->all[i].fd, .events = POLLIN | POLLRDHUP};
    }
    if (poll(polled, held->count, 0) <= 0) {
        return 0;
    }
    /* Whatever a peer says unasked, it is the last thing: that it goes away. */
    for (size_t i = 0; i < held->count; i++) {
        stale += polled[i].revents != 0;
    }
    return stale;
}
