/* The ends of processes: libc's functions that wait for them, in async mode. */
#include <errno.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "waiting.h"
#include "waiting_for.h"

pid_t waiting_wait4(pid_t process, int *status, int options, struct rusage *usage)
{
    uint64_t pause = 0;
    pid_t ended;
    int fd;

    if ((options & WNOHANG) || !fibres_may_park()) {
        return (pid_t)syscall(SYS_wait4, process, status, options, usage);
    }
    waiting_take_turns();
    ended = (pid_t)syscall(SYS_wait4, process, status, options | WNOHANG, usage);
    if (ended != 0) {
        return ended;
    }
    fd = process > 0 && !(options & WUNTRACED) ? (int)syscall(SYS_pidfd_open, process, 0) : -1;
    if (fd >= 0) {
        waiting_for_one(fd, POLLIN, REACTOR_FOREVER);
        syscall(SYS_close, fd);
    }
    while ((ended = (pid_t)syscall(SYS_wait4, process, status, options | WNOHANG, usage)) == 0) {
        waiting_pause(&pause);
    }
    return ended;
}
