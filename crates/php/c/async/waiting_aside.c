/* What waits inside of libc, where nobody can be let in: a thread calls it, in async mode.
 *
 * The request is parked until the thread has answered, so the arguments stay where they are. Only
 * what can be left alone (see `can_be_left`) may be interrupted.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ext/standard/file.h>

#include "async/waiting.h"
#include "async/waiting_for.h"
#include "interpose.h"

enum { MOST_WORDS = 8 };

typedef uintptr_t word;
typedef long (*aside_call)(const word *words);

/* Belongs to the one who asks and to the thread; the last of them frees it. */
typedef struct {
    aside_call call;
    word words[MOST_WORDS];
    long result;
    int error, name_error; /* errno and h_errno, which are a thread's own */
    int answered;          /* an eventfd */
    _Atomic int owners;
} question;

static void let_go(question *q)
{
    if (atomic_fetch_sub(&q->owners, 1) == 1) {
        syscall(SYS_close, q->answered);
        free(q);
    }
}

static void *answer(void *asked)
{
    question *q = asked;
    const uint64_t one = 1;

    q->result = q->call(q->words);
    q->error = errno;
    q->name_error = h_errno;
    syscall(SYS_write, q->answered, &one, sizeof(one));
    let_go(q);
    return NULL;
}

/* In a thread that no signal comes to: those of PHP are for the thread that runs it. */
static bool ask(question *q)
{
    sigset_t all, before;
    pthread_attr_t detached;
    pthread_t thread;
    bool asked;

    sigfillset(&all);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, _NSIG / 8);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    asked = pthread_create(&thread, &detached, answer, q) == 0;
    pthread_attr_destroy(&detached);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, _NSIG / 8);
    return asked;
}

/* NULL: there is no memory, descriptor or thread for it. */
static question *begin(aside_call call, const word *words, size_t count)
{
    question *q = calloc(1, sizeof(*q));

    if (!q) {
        return NULL;
    }
    q->call = call;
    memcpy(q->words, words, count * sizeof(*words));
    q->owners = 2;
    q->answered = eventfd(0, EFD_CLOEXEC);
    if (q->answered >= 0 && ask(q)) {
        return q;
    }
    q->owners = 1;
    let_go(q);
    return NULL;
}

/* `can_be_left`: it needs nothing of the one who asks, who may go on before there is an answer. */
static long aside(aside_call call, const word *words, size_t count, bool can_be_left)
{
    question *q = fibers_may_park() ? begin(call, words, count) : NULL;
    long result;

    if (!q) {
        return WAITING_HELD(call(words));
    }
    if (waiting_for_one(q->answered, POLLIN, REACTOR_FOREVER,
                        can_be_left ? SHIM_AWAITS_PROCESS : SHIM_AWAITS_NAME) < 0) {
        struct pollfd answered = {.fd = q->answered, .events = POLLIN};
        if (can_be_left) {
            let_go(q);
            errno = ECANCELED;
            return -1;
        }
        syscall(SYS_poll, &answered, 1, -1);
    }
    result = q->result;
    errno = q->error;
    h_errno = q->name_error;
    let_go(q);
    return result;
}

/* Declares how a thread makes a call: w[] are its arguments. */
#define CALL(name, ...)                           \
    static long call_##name(const word *w)        \
    {                                             \
        return (long)LIBC(name)(__VA_ARGS__);     \
    }

#define ASIDE(name, can_be_left, ...)                                     \
    aside(call_##name, (const word[]){__VA_ARGS__},                       \
          sizeof((const word[]){__VA_ARGS__}) / sizeof(word), can_be_left)

/* ---- names and addresses ---- */

CALL(getaddrinfo, (const char *)w[0], (const char *)w[1], (const struct addrinfo *)w[2],
     (struct addrinfo **)w[3])
CALL(getnameinfo, (const struct sockaddr *)w[0], (socklen_t)w[1], (char *)w[2], (socklen_t)w[3],
     (char *)w[4], (socklen_t)w[5], (int)w[6])
CALL(gethostbyname2_r, (const char *)w[0], (int)w[1], (struct hostent *)w[2], (char *)w[3],
     (size_t)w[4], (struct hostent **)w[5], (int *)w[6])
CALL(gethostbyaddr_r, (const void *)w[0], (socklen_t)w[1], (int)w[2], (struct hostent *)w[3],
     (char *)w[4], (size_t)w[5], (struct hostent **)w[6], (int *)w[7])
CALL(res_nsearch, (res_state)w[0], (const char *)w[1], (int)w[2], (int)w[3],
     (unsigned char *)w[4], (int)w[5])
CALL(res_nquery, (res_state)w[0], (const char *)w[1], (int)w[2], (int)w[3], (unsigned char *)w[4],
     (int)w[5])
CALL(res_search, (const char *)w[0], (int)w[1], (int)w[2], (unsigned char *)w[3], (int)w[4])
CALL(res_query, (const char *)w[0], (int)w[1], (int)w[2], (unsigned char *)w[3], (int)w[4])

static bool is_address(const char *name)
{
    struct in6_addr address;

    return !name || inet_pton(AF_INET, name, &address) == 1 ||
           inet_pton(AF_INET6, name, &address) == 1;
}

int waiting_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                        struct addrinfo **found)
{
    if (is_address(name)) {
        return LIBC(getaddrinfo)(name, service, hints, found);
    }
    return (int)ASIDE(getaddrinfo, false, (word)name, (word)service, (word)hints, (word)found);
}

int waiting_getnameinfo(const struct sockaddr *address, socklen_t len, char *host,
                        socklen_t host_len, char *service, socklen_t service_len, int flags)
{
    if (!host || host_len == 0 || (flags & NI_NUMERICHOST)) {
        return LIBC(getnameinfo)(address, len, host, host_len, service, service_len, flags);
    }
    return (int)ASIDE(getnameinfo, false, (word)address, len, (word)host, host_len, (word)service,
                      service_len, (word)flags);
}

/* PHP has one place for all answers, which each call frees first: nobody else may find it while it
 * is being filled. */
int waiting_gethostbyname2_r(const char *name, int family, struct hostent *entry, char *text,
                             size_t text_len, struct hostent **found, int *error)
{
    const bool is_place_of_php = text && text == FG(tmp_host_buf);
    struct hostent own = {0};
    int result;

    if (is_address(name) || !fibers_may_park()) {
        return WAITING_HELD(
            LIBC(gethostbyname2_r)(name, family, entry, text, text_len, found, error));
    }
    if (is_place_of_php) {
        FG(tmp_host_buf) = NULL;
        FG(tmp_host_buf_len) = 0;
    }
    result = (int)ASIDE(gethostbyname2_r, false, (word)name, (word)family, (word)&own, (word)text,
                        text_len, (word)found, (word)error);
    if (is_place_of_php) {
        free(FG(tmp_host_buf));
        FG(tmp_host_buf) = text;
        FG(tmp_host_buf_len) = text_len;
    }
    *entry = own;
    *found = *found ? entry : NULL;
    return result;
}

int waiting_gethostbyaddr_r(const void *address, socklen_t len, int family, struct hostent *entry,
                            char *text, size_t text_len, struct hostent **found, int *error)
{
    return (int)ASIDE(gethostbyaddr_r, false, (word)address, len, (word)family, (word)entry,
                      (word)text, text_len, (word)found, (word)error);
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

int waiting_res_nsearch(res_state state, const char *name, int class, int type, unsigned char *at,
                        int len)
{
    return (int)ASIDE(res_nsearch, false, (word)state, (word)name, (word)class, (word)type,
                      (word)at, (word)len);
}

int waiting_res_nquery(res_state state, const char *name, int class, int type, unsigned char *at,
                       int len)
{
    return (int)ASIDE(res_nquery, false, (word)state, (word)name, (word)class, (word)type,
                      (word)at, (word)len);
}

int waiting_res_search(const char *name, int class, int type, unsigned char *at, int len)
{
    return (int)ASIDE(res_search, false, (word)name, (word)class, (word)type, (word)at, (word)len);
}

int waiting_res_query(const char *name, int class, int type, unsigned char *at, int len)
{
    return (int)ASIDE(res_query, false, (word)name, (word)class, (word)type, (word)at, (word)len);
}

/* ---- programs ---- */

CALL(pclose, (FILE *)w[0])

/* The thread's own copy of the command. */
static long call_system(const word *w)
{
    int status = LIBC(system)((const char *)w[0]);

    free((char *)w[0]);
    return status;
}

int waiting_pclose(FILE *file)
{
    return (int)ASIDE(pclose, true, (word)file);
}

int waiting_system(const char *command)
{
    char *copy = command ? strdup(command) : NULL;

    return copy ? (int)ASIDE(system, true, (word)copy) : LIBC(system)(command);
}

/* Programs that other requests start must not get the pipe: who reads from it would wait for
 * them. */
FILE *waiting_popen(const char *command, const char *mode)
{
    char closed_in_programs[8];

    if (!fibers_in_request() || strchr(mode, 'e') ||
        (size_t)snprintf(closed_in_programs, sizeof(closed_in_programs), "%se", mode) >=
            sizeof(closed_in_programs)) {
        return LIBC(popen)(command, mode);
    }
    return LIBC(popen)(command, closed_in_programs);
}
