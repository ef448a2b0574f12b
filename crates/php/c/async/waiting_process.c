/* The ends of processes, and signals: libc's functions that wait for them, in async mode. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "async/fibers_parking.h"
#include "async/reactor.h"
#include "async/waiting.h"
#include "async/waiting_for.h"

/* Until a process ends. Only a hint: there may be no descriptor for it. */
static void await_end_of(pid_t process)
{
    int fd = (int)syscall(SYS_pidfd_open, process, 0);

    if (fd >= 0) {
        waiting_for_one(fd, POLLIN, REACTOR_FOREVER, SHIM_AWAITS_PROCESS);
        syscall(SYS_close, fd);
    }
}

pid_t waiting_wait4(pid_t process, int *status, int options, struct rusage *usage)
{
    uint64_t pause = 0;
    pid_t ended;

    if ((options & WNOHANG) || !fibers_may_park()) {
        return WAITING_HELD((pid_t)syscall(SYS_wait4, process, status, options, usage));
    }
    waiting_take_turns();
    ended = (pid_t)syscall(SYS_wait4, process, status, options | WNOHANG, usage);
    if (ended == 0 && process > 0 && !(options & (WUNTRACED | WCONTINUED))) {
        await_end_of(process);
        ended = (pid_t)syscall(SYS_wait4, process, status, options | WNOHANG, usage);
    }
    while (ended == 0) {
        if (!waiting_pause(&pause, SHIM_AWAITS_PROCESS)) {
            errno = ECANCELED;
            return -1;
        }
        ended = (pid_t)syscall(SYS_wait4, process, status, options | WNOHANG, usage);
    }
    return ended;
}

int waiting_waitid(idtype_t kind, id_t id, siginfo_t *info, int options)
{
    siginfo_t unasked, *about = info ? info : &unasked;
    uint64_t pause = 0;
    int result;

    if ((options & WNOHANG) || !fibers_may_park()) {
        return WAITING_HELD((int)syscall(SYS_waitid, kind, id, info, options, NULL));
    }
    waiting_take_turns();
    about->si_pid = 0;
    result = (int)syscall(SYS_waitid, kind, id, about, options | WNOHANG, NULL);
    if (result == 0 && about->si_pid == 0 && kind == P_PID &&
        !(options & (WSTOPPED | WCONTINUED))) {
        await_end_of((pid_t)id);
        result = (int)syscall(SYS_waitid, kind, id, about, options | WNOHANG, NULL);
    }
    while (result == 0 && about->si_pid == 0) {
        if (!waiting_pause(&pause, SHIM_AWAITS_PROCESS)) {
            errno = ECANCELED;
            return -1;
        }
        result = (int)syscall(SYS_waitid, kind, id, about, options | WNOHANG, NULL);
    }
    return result;
}

int waiting_sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *patience)
{
    static const struct timespec at_once;
    const bool waits = !patience || patience->tv_sec > 0 || patience->tv_nsec > 0;
    uint64_t deadline;
    int number, fd;

    if (!waits || !fibers_may_park()) {
        return WAITING_HELD((int)syscall(SYS_rt_sigtimedwait, set, info, patience, _NSIG / 8));
    }
    deadline = patience ? waiting_after(waiting_nanoseconds(patience)) : REACTOR_FOREVER;
    fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) {
        return -1;
    }
    do {
        number = (int)syscall(SYS_rt_sigtimedwait, set, info, &at_once, _NSIG / 8);
    } while (number < 0 && errno == EAGAIN &&
             waiting_for_one(fd, POLLIN, deadline, SHIM_AWAITS_SIGNAL) > 0);
    syscall(SYS_close, fd);
    return number;
}
