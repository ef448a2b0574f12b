/* Looks names of hosts and addresses up in a thread, in async mode: libc waits inside of these
 * functions, until a resolver answers or it gives up, which may take half a minute.
 *
 * The thread has copies of all arguments, and memory of its own for the answer. So a request that
 * is cancelled goes on at once, and the thread ends when libc does.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <ext/standard/file.h>

#include "async/fibers_parking.h"
#include "async/waiting.h"
#include "async/waiting_aside.h"
#include "async/waiting_for.h"
#include "ground/libc.h"

typedef int (*ask_resolver)(const char *, int, int, unsigned char *, int);
typedef int (*ask_resolver_of)(res_state, const char *, int, int, unsigned char *, int);

/* One of the functions below, with what it is given and what it answers. */
typedef struct {
    waiting_call call;
    int result;
    char *name, *service; /* NULL: not given */
    int family, class, type, flags;
    struct addrinfo hints, *found;
    struct sockaddr_storage address;
    socklen_t address_len;
    struct hostent host, *found_host;
    int host_error;
    ask_resolver ask;
    ask_resolver_of ask_of;
    struct __res_state state;
    char *memory, *text; /* the answer's; where it begins in there */
    size_t text_len, host_len;
    bool has_thread;
} question;

/* Threads at once. With ten times less, a few names that no server knows would keep all others from
 * being looked up; with ten times more there would be memory for hundreds of stacks, because the
 * threads of cancelled requests stay until libc gives up. */
enum { MOST_THREADS = 64 };

static _Atomic int threads;

static void end(waiting_call *call)
{
    question *q = (question *)call;

    if (q->has_thread) {
        atomic_fetch_sub(&threads, 1);
    }
    if (q->found) {
        freeaddrinfo(q->found);
    }
    free(q->name);
    free(q->service);
    free(q->memory);
    free(q);
}

/* The answer is to lie as `at` does: libc puts pointers into it. */
static bool make_room(question *q, const void *at, size_t len)
{
    const size_t lies = (uintptr_t)at % _Alignof(max_align_t);

    q->memory = calloc(1, len + _Alignof(max_align_t));
    q->text = q->memory ? q->memory + lies : NULL;
    q->text_len = len;
    return q->memory != NULL;
}

/* NULL: there is no memory for it, or no other request may run meanwhile. */
static question *begin(void (*make)(waiting_call *call), const char *name, const char *service,
                       const void *at, size_t len)
{
    question *q = fibers_may_park() ? calloc(1, sizeof(*q)) : NULL;

    if (!q) {
        return NULL;
    }
    q->call = (waiting_call){.make = make, .end = end};
    q->name = name ? strdup(name) : NULL;
    q->service = service ? strdup(service) : NULL;
    if (!make_room(q, at, len) || (name && !q->name) || (service && !q->service)) {
        end(&q->call);
        return NULL;
    }
    return q;
}

static waiting_outcome broken_off(waiting_outcome outcome)
{
    errno = ECANCELED;
    h_errno = TRY_AGAIN;
    return outcome;
}

/* As waiting_aside(), as soon as there are few enough threads. */
static waiting_outcome ask(question *q)
{
    uint64_t pause = 0;
    waiting_outcome outcome;

    while (atomic_load(&threads) >= MOST_THREADS) {
        if (!waiting_pause(&pause, SHIM_AWAITS_NAME)) {
            end(&q->call);
            return broken_off(WAITING_LEFT);
        }
    }
    /* Only this thread adds to them. */
    atomic_fetch_add(&threads, 1);
    q->has_thread = true;
    outcome = waiting_aside(&q->call, SHIM_AWAITS_NAME);
    return outcome == WAITING_LEFT ? broken_off(outcome) : outcome;
}

static bool is_address(const char *name)
{
    struct in6_addr address;

    return !name || inet_pton(AF_INET, name, &address) == 1 ||
           inet_pton(AF_INET6, name, &address) == 1;
}

/* ---- getaddrinfo() and getnameinfo() ---- */

static void call_getaddrinfo(waiting_call *call)
{
    question *q = (question *)call;

    q->result = LIBC(getaddrinfo)(q->name, q->service, &q->hints, &q->found);
}

int waiting_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                        struct addrinfo **found)
{
    question *q = is_address(name) ? NULL : begin(call_getaddrinfo, name, service, NULL, 0);
    waiting_outcome outcome = WAITING_NOT_BEGUN;
    int result = EAI_SYSTEM;

    if (q) {
        /* What it means to give none. */
        q->hints = hints ? *hints : (struct addrinfo){.ai_flags = AI_V4MAPPED | AI_ADDRCONFIG};
        outcome = ask(q);
    }
    if (outcome == WAITING_NOT_BEGUN) {
        return WAITING_HELD(LIBC(getaddrinfo)(name, service, hints, found));
    }
    if (outcome == WAITING_ANSWERED) {
        result = q->result;
        *found = q->found;
        q->found = NULL;
        waiting_let_go(&q->call);
    }
    return result;
}

/* Both texts lie in one piece of memory, the host's first. */
static void call_getnameinfo(waiting_call *call)
{
    question *q = (question *)call;
    const size_t service_len = q->text_len - q->host_len;

    q->result = LIBC(getnameinfo)((const struct sockaddr *)&q->address, q->address_len, q->text,
                                  (socklen_t)q->host_len,
                                  service_len > 0 ? q->text + q->host_len : NULL,
                                  (socklen_t)service_len, q->flags);
}

int waiting_getnameinfo(const struct sockaddr *address, socklen_t len, char *host,
                        socklen_t host_len, char *service, socklen_t service_len, int flags)
{
    const bool is_resolved = host && host_len > 0 && !(flags & NI_NUMERICHOST) &&
                          len <= sizeof(struct sockaddr_storage);
    const size_t text_len = (size_t)host_len + (service ? service_len : 0);
    question *q = is_resolved ? begin(call_getnameinfo, NULL, NULL, NULL, text_len) : NULL;
    waiting_outcome outcome = WAITING_NOT_BEGUN;
    int result = EAI_SYSTEM;

    if (q) {
        memcpy(&q->address, address, len);
        q->address_len = len;
        q->host_len = host_len;
        q->flags = flags;
        outcome = ask(q);
    }
    if (outcome == WAITING_NOT_BEGUN) {
        return WAITING_HELD(
            LIBC(getnameinfo)(address, len, host, host_len, service, service_len, flags));
    }
    if (outcome == WAITING_ANSWERED) {
        result = q->result;
        if (result == 0) {
            memcpy(host, q->text, host_len);
            if (service) {
                memcpy(service, q->text + host_len, service_len);
            }
        }
        waiting_let_go(&q->call);
    }
    return result;
}

/* ---- gethostbyname() and gethostbyaddr() ---- */

static void call_gethostbyname(waiting_call *call)
{
    question *q = (question *)call;

    q->result = LIBC(gethostbyname2_r)(q->name, q->family, &q->host, q->text, q->text_len,
                                       &q->found_host, &q->host_error);
}

static void call_gethostbyaddr(waiting_call *call)
{
    question *q = (question *)call;

    q->result = LIBC(gethostbyaddr_r)(&q->address, q->address_len, q->family, &q->host, q->text,
                                      q->text_len, &q->found_host, &q->host_error);
}

/* A pointer into one text, moved to the same place in its copy. */
static void *moved(const void *pointer, const char *from, char *to)
{
    return pointer ? to + ((const char *)pointer - from) : NULL;
}

static char **moved_list(char **list, const char *from, char *to)
{
    char **copy = moved(list, from, to);

    for (char **at = copy; at && *at; at++) {
        *at = moved(*at, from, to);
    }
    return copy;
}

/* The answer is one text, and an entry that points into it. */
static void copy_host(const question *q, struct hostent *entry, char *text)
{
    memcpy(text, q->text, q->text_len);
    *entry = q->host;
    entry->h_name = moved(entry->h_name, q->text, text);
    entry->h_aliases = moved_list(entry->h_aliases, q->text, text);
    entry->h_addr_list = moved_list(entry->h_addr_list, q->text, text);
}

/* False: the name service was not queried. */
static bool ask_for_host(question *q, struct hostent *entry, char *text, struct hostent **found,
                         int *error, int *result)
{
    const waiting_outcome outcome = ask(q);

    if (outcome == WAITING_LEFT) {
        *result = ECANCELED;
        *error = TRY_AGAIN;
        *found = NULL;
    }
    if (outcome == WAITING_ANSWERED) {
        *result = q->result;
        *error = q->host_error;
        *found = q->found_host ? entry : NULL;
        if (q->found_host) {
            copy_host(q, entry, text);
        }
        waiting_let_go(&q->call);
    }
    return outcome != WAITING_NOT_BEGUN;
}

/* PHP has one place for all answers, which each call frees first: no other request may find it
 * while this one waits for what is to be put there. */
int waiting_gethostbyname2_r(const char *name, int family, struct hostent *entry, char *text,
                             size_t text_len, struct hostent **found, int *error)
{
    question *q = is_address(name) ? NULL : begin(call_gethostbyname, name, NULL, text, text_len);
    const bool is_place_of_php = q && text == FG(tmp_host_buf);
    bool is_resolved = false;
    int result;

    if (is_place_of_php) {
        FG(tmp_host_buf) = NULL;
        FG(tmp_host_buf_len) = 0;
    }
    if (q) {
        q->family = family;
        is_resolved = ask_for_host(q, entry, text, found, error, &result);
    }
    if (is_place_of_php) {
        free(FG(tmp_host_buf));
        FG(tmp_host_buf) = text;
        FG(tmp_host_buf_len) = text_len;
    }
    return is_resolved ? result
                    : WAITING_HELD(LIBC(gethostbyname2_r)(name, family, entry, text, text_len,
                                                          found, error));
}

int waiting_gethostbyaddr_r(const void *address, socklen_t len, int family, struct hostent *entry,
                            char *text, size_t text_len, struct hostent **found, int *error)
{
    const bool fits = len <= sizeof(struct sockaddr_storage);
    question *q = fits ? begin(call_gethostbyaddr, NULL, NULL, text, text_len) : NULL;
    int result;

    if (q) {
        memcpy(&q->address, address, len);
        q->address_len = len;
        q->family = family;
        if (ask_for_host(q, entry, text, found, error, &result)) {
            return result;
        }
    }
    return WAITING_HELD(
        LIBC(gethostbyaddr_r)(address, len, family, entry, text, text_len, found, error));
}

/* What the functions without _r return: it stays until the next call of one of them. */
typedef struct {
    struct hostent entry;
    char text[16384];
} static_host;

static static_host *last_host;

static struct hostent *keep_host(static_host *host, const struct hostent *found, int error)
{
    if (!found) {
        free(host);
        h_errno = error;
        return NULL;
    }
    free(last_host);
    last_host = host;
    return &host->entry;
}

struct hostent *waiting_gethostbyname2(const char *name, int family)
{
    static_host *host = fibers_may_park() ? malloc(sizeof(*host)) : NULL;
    struct hostent *found = NULL;
    int error = NO_RECOVERY;

    if (!host) {
        return LIBC(gethostbyname2)(name, family);
    }
    waiting_gethostbyname2_r(name, family, &host->entry, host->text, sizeof(host->text), &found,
                             &error);
    return keep_host(host, found, error);
}

struct hostent *waiting_gethostbyaddr(const void *address, socklen_t len, int family)
{
    static_host *host = fibers_may_park() ? malloc(sizeof(*host)) : NULL;
    struct hostent *found = NULL;
    int error = NO_RECOVERY;

    if (!host) {
        return LIBC(gethostbyaddr)(address, len, family);
    }
    waiting_gethostbyaddr_r(address, len, family, &host->entry, host->text, sizeof(host->text),
                            &found, &error);
    return keep_host(host, found, error);
}

/* ---- the resolver ---- */

static void call_resolver(waiting_call *call)
{
    question *q = (question *)call;

    q->result = q->ask(q->name, q->class, q->type, (unsigned char *)q->text, (int)q->text_len);
    q->host_error = h_errno;
}

/* With a state of its own, because there are sockets and buffers in it: of the caller's it has what
 * can be set, how and whom to ask. */
static void call_resolver_of(waiting_call *call)
{
    question *q = (question *)call;
    struct __res_state own = {0};

    q->result = -1;
    q->host_error = NO_RECOVERY;
    if (res_ninit(&own) == 0) {
        own.options = q->state.options;
        own.retrans = q->state.retrans;
        own.retry = q->state.retry;
        own.nscount = q->state.nscount;
        memcpy(own.nsaddr_list, q->state.nsaddr_list, sizeof(own.nsaddr_list));
        q->result = q->ask_of(&own, q->name, q->class, q->type, (unsigned char *)q->text,
                              (int)q->text_len);
        q->host_error = own.res_h_errno;
        res_nclose(&own);
    }
    h_errno = q->host_error;
}

static question *begin_resolver(void (*make)(waiting_call *call), const char *name, int class,
                                int type, const unsigned char *at, int len)
{
    question *q = len > 0 ? begin(make, name, NULL, at, (size_t)len) : NULL;

    if (q) {
        q->class = class;
        q->type = type;
    }
    return q;
}

/* False: the name service was not queried. */
static bool ask_resolver_for(question *q, unsigned char *at, int *result, int *error)
{
    const waiting_outcome outcome = ask(q);

    if (outcome == WAITING_LEFT) {
        *result = -1;
        *error = TRY_AGAIN;
    }
    if (outcome == WAITING_ANSWERED) {
        *result = q->result;
        *error = q->host_error;
        if (q->result > 0) {
            memcpy(at, q->text, q->text_len);
        }
        waiting_let_go(&q->call);
    }
    return outcome != WAITING_NOT_BEGUN;
}

static bool resolve(ask_resolver function, const char *name, int class, int type,
                    unsigned char *at, int len, int *result)
{
    question *q = begin_resolver(call_resolver, name, class, type, at, len);
    int error;

    if (q) {
        q->ask = function;
    }
    return q && ask_resolver_for(q, at, result, &error);
}

static bool resolve_by(ask_resolver_of function, res_state state, const char *name, int class,
                       int type, unsigned char *at, int len, int *result)
{
    question *q = begin_resolver(call_resolver_of, name, class, type, at, len);

    if (q) {
        q->ask_of = function;
        q->state = *state;
    }
    return q && ask_resolver_for(q, at, result, &state->res_h_errno);
}

int waiting_res_nsearch(res_state state, const char *name, int class, int type, unsigned char *at,
                        int len)
{
    int result;

    return resolve_by(LIBC(res_nsearch), state, name, class, type, at, len, &result)
               ? result
               : WAITING_HELD(LIBC(res_nsearch)(state, name, class, type, at, len));
}

int waiting_res_nquery(res_state state, const char *name, int class, int type, unsigned char *at,
                       int len)
{
    int result;

    return resolve_by(LIBC(res_nquery), state, name, class, type, at, len, &result)
               ? result
               : WAITING_HELD(LIBC(res_nquery)(state, name, class, type, at, len));
}

int waiting_res_search(const char *name, int class, int type, unsigned char *at, int len)
{
    int result;

    return resolve(LIBC(res_search), name, class, type, at, len, &result)
               ? result
               : WAITING_HELD(LIBC(res_search)(name, class, type, at, len));
}

int waiting_res_query(const char *name, int class, int type, unsigned char *at, int len)
{
    int result;

    return resolve(LIBC(res_query), name, class, type, at, len, &result)
               ? result
               : WAITING_HELD(LIBC(res_query)(name, class, type, at, len));
}
