/* Notifies every part of the shim that observes descriptors and processes. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "top/observers.h"
#include "async/fibers.h"
#include "async/in_use.h"
#include "async/kinds.h"
#include "async/peers.h"
#include "async/waiting.h"
#include "ground/libc.h"
#include "process/descriptors.h"
#include "process/process_state.h"
#include "process/sockets.h"
#include "sealed/connections.h"

/* Also of what libc closes by itself. */
void observers_closed_inside(int fd)
{
    descriptors_note_closed(fd);
    kinds_forget(fd);
    waiting_note_closed(fd);
    fibers_note_closed(fd);
    peers_note_closed(fd);
    in_use_note_closed(fd);
}

void observers_closed(int fd)
{
    sockets_note_closed(fd);
    connections_note_closed(fd);
    observers_closed_inside(fd);
}

/* The kernel's own limit, unless it was raised. */
enum { MOST_DESCRIPTORS = 1 << 20 };

static void note_each_closed(unsigned first, unsigned last)
{
    struct rlimit limit;
    const bool is_known = getrlimit(RLIMIT_NOFILE, &limit) == 0;
    const rlim_t end = is_known && limit.rlim_cur < MOST_DESCRIPTORS ? limit.rlim_cur
                                                                     : MOST_DESCRIPTORS;

    for (unsigned fd = first; fd <= last && fd < end; fd++) {
        observers_closed((int)fd);
    }
}

/* Of a range, which mostly ends at the highest number there is, only what is open is closed. */
void observers_closed_range(unsigned first, unsigned last)
{
    const struct dirent *entry;
    DIR *open;

    if (fibers_is_vfork_child()) {
        return;
    }
    open = opendir("/proc/self/fd");
    if (!open) {
        note_each_closed(first, last);
        return;
    }
    while ((entry = readdir(open))) {
        const unsigned fd = (unsigned)strtoul(entry->d_name, NULL, 10);

        if (entry->d_name[0] != '.' && fd >= first && fd <= last) {
            observers_closed((int)fd);
        }
    }
    LIBC(closedir)(open);
}

void observers_range(unsigned first, unsigned last, int flags)
{
    if (!(flags & CLOSE_RANGE_CLOEXEC)) {
        observers_closed_range(first, last);
    }
}

void observers_copied(int fd)
{
    connections_note_used(fd);
    descriptors_note_copied(fd);
}

void observers_replaced(int from, int to)
{
    observers_copied(from);
    observers_closed_inside(to);
}

int observers_fcntl(descriptor_call real, int fd, int command, void *argument)
{
    int result;

    if (opcache_answers_fcntl(real, fd, command, argument, &result)) {
        return result;
    }
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) {
        connections_note_used(fd);
    }
    descriptors_note_fcntl(fd, command);
    switch (command) {
    case F_GETLK:
    case F_SETLK:
    case F_SETLKW:
    case F_OFD_SETLK:
    case F_OFD_SETLKW:
        return waiting_fcntl_lock(fd, command, argument);
    default:
        return real(fd, command, argument);
    }
}

void observers_child(void)
{
    process_state_note_child();
    descriptors_note_fork();
}
