/* What waits inside of libc, where nobody can be let in: a thread calls it, in async mode. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "waiting.h"
#include "waiting_for.h"

/* A question to the resolver of libc, which waits in libc. */
typedef struct {
    address_finder find;
    const char *name, *service;
    const struct addrinfo *hints;
    struct addrinfo **found;
    int result, error, answered;
} question;

static void *answer(void *asked)
{
    question *q = asked;
    const uint64_t one = 1;

    q->result = q->find(q->name, q->service, q->hints, q->found);
    q->error = errno;
    return (void *)syscall(SYS_write, q->answered, &one, sizeof(one));
}

/* In a thread that no signal comes to: those of PHP are for the thread that runs it. */
static bool ask_aside(question *q)
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

static bool is_address(const char *name)
{
    struct in6_addr address;

    return !name || inet_pton(AF_INET, name, &address) == 1 ||
           inet_pton(AF_INET6, name, &address) == 1;
}

int waiting_getaddrinfo(address_finder real, const char *name, const char *service,
                        const struct addrinfo *hints, struct addrinfo **found)
{
    question q = {.find = real, .name = name, .service = service, .hints = hints, .found = found};

    if (is_address(name) || !fibres_may_park()) {
        return real(name, service, hints, found);
    }
    q.answered = eventfd(0, EFD_CLOEXEC);
    if (q.answered < 0 || !ask_aside(&q)) {
        if (q.answered >= 0) {
            syscall(SYS_close, q.answered);
        }
        return real(name, service, hints, found);
    }
    waiting_for_one(q.answered, POLLIN, REACTOR_FOREVER);
    syscall(SYS_close, q.answered);
    errno = q.error;
    return q.result;
}
