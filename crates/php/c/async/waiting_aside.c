/* What waits inside of libc, where no other request can run: a thread calls it, in async mode.
 *
 * The request is parked until the thread has answered. A request that is cancelled goes on at once,
 * and the thread is left alone with its call. Here: the threads, and programs. waiting_names.c asks
 * for names.
 */
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "async/waiting_aside.h"
#include "async/fibers_parking.h"
#include "async/reactor.h"
#include "async/waiting.h"
#include "async/waiting_for.h"
#include "ground/libc.h"

void waiting_let_go(waiting_call *call)
{
    if (atomic_fetch_sub(&call->owners, 1) == 1) {
        const int answered = atomic_load(&call->answered);

        if (answered >= 0) {
            syscall(SYS_close, answered);
        }
        call->end(call);
    }
}

static void *answer(void *begun)
{
    waiting_call *call = begun;
    const uint64_t one = 1;
    int answered;

    call->make(call);
    call->error = errno;
    call->name_error = h_errno;
    atomic_store_explicit(&call->is_answered, true, memory_order_release);
    answered = atomic_load(&call->answered);
    if (answered >= 0) {
        syscall(SYS_write, answered, &one, sizeof(one));
    }
    waiting_let_go(call);
    return NULL;
}

/* In a thread that no signal comes to: those of PHP are for the thread that runs it. */
static bool begin(waiting_call *call)
{
    sigset_t all, before;
    pthread_attr_t detached;
    pthread_t thread;
    bool begun;

    sigfillset(&all);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, _NSIG / 8);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    begun = pthread_create(&thread, &detached, answer, call) == 0;
    pthread_attr_destroy(&detached);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, _NSIG / 8);
    return begun;
}

/* A wait may end too soon: see reactor.c. So the eventfd only says when to look. False: broken off,
 * or the eventfd is closed. */
static bool wait_for_answer(waiting_call *call, uint8_t kind)
{
    struct pollfd answer = {.fd = call->answered, .events = POLLIN};
    reactor_watch watch;

    waiting_take_turns();
    while (!atomic_load_explicit(&call->is_answered, memory_order_acquire)) {
        reactor_wait wait = {.fds = &answer, .count = 1, .watches = &watch,
                             .deadline = REACTOR_FOREVER, .kind = kind};

        answer.revents = 0;
        if (!fibers_park(&wait)) {
            return false;
        }
        if (wait.ready == REACTOR_CLOSED || (answer.revents & POLLNVAL)) {
            atomic_store(&call->answered, -1);
            return false;
        }
    }
    return true;
}

waiting_outcome waiting_aside(waiting_call *call, uint8_t kind)
{
    call->owners = 2;
    call->answered = eventfd(0, EFD_CLOEXEC);
    if (call->answered < 0 || !begin(call)) {
        if (call->answered >= 0) {
            syscall(SYS_close, call->answered);
        }
        call->end(call);
        return WAITING_NOT_BEGUN;
    }
    if (!wait_for_answer(call, kind)) {
        waiting_let_go(call);
        errno = ECANCELED;
        return WAITING_LEFT;
    }
    errno = call->error;
    h_errno = call->name_error;
    return WAITING_ANSWERED;
}

/* ---- programs ---- */

typedef struct {
    waiting_call call;
    FILE *file;    /* to close, or */
    char *command; /* to run, with this mask */
    sigset_t mask;
    int status;
} program;

static void end_program(waiting_call *call)
{
    free(((program *)call)->command);
    free(call);
}

static void call_pclose(waiting_call *call)
{
    ((program *)call)->status = LIBC(pclose)(((program *)call)->file);
}

/* libc's would give the program the mask of this thread, which blocks all: SIGTERM would not end
 * it. */
static void call_system(waiting_call *call)
{
    program *p = (program *)call;
    char *words[] = {"sh", "-c", p->command, NULL};
    posix_spawnattr_t attributes;
    pid_t process;

    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &p->mask);
    errno = LIBC(posix_spawn)(&process, "/bin/sh", NULL, &attributes, words, environ);
    posix_spawnattr_destroy(&attributes);
    if (errno != 0 || syscall(SYS_wait4, process, &p->status, 0, NULL) < 0) {
        p->status = -1;
    }
}

/* False: nothing has been done. */
static bool run_aside(program *p, int *status)
{
    const waiting_outcome outcome = waiting_aside(&p->call, SHIM_AWAITS_PROCESS);

    *status = outcome == WAITING_ANSWERED ? p->status : -1;
    if (outcome == WAITING_ANSWERED) {
        waiting_let_go(&p->call);
    }
    return outcome != WAITING_NOT_BEGUN;
}

int waiting_pclose(FILE *file)
{
    program *p = fibers_may_park() ? calloc(1, sizeof(*p)) : NULL;
    int status;

    if (p) {
        p->call = (waiting_call){.make = call_pclose, .end = end_program};
        p->file = file;
        if (run_aside(p, &status)) {
            return status;
        }
    }
    return WAITING_HELD(LIBC(pclose)(file));
}

int waiting_system(const char *command)
{
    program *p = command && fibers_may_park() ? calloc(1, sizeof(*p)) : NULL;
    int status;

    if (p && !(p->command = strdup(command))) {
        free(p);
        p = NULL;
    }
    if (p) {
        p->call = (waiting_call){.make = call_system, .end = end_program};
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &p->mask, _NSIG / 8);
        if (run_aside(p, &status)) {
            return status;
        }
    }
    return WAITING_HELD(LIBC(system)(command));
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
