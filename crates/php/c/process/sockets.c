/* Which sockets PHP opens, for the check that a database has not hung up on an idle worker.
 *
 * Every stream socket that the process opens is remembered until it is closed. One that was closed
 * by libc itself, behind our back, is found out when its number is asked about.
 */
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "process/sockets.h"
#include "ground/libc.h"
#include "ground/mode.h"
#include "ground/state.h"
#include "process/time_limit.h"

enum { WATCHED = 256 };
static int watched[WATCHED];
static bool kept[WATCHED]; /* the boot, or an earlier request, has left it open */
static int watched_count;
static int lost; /* such sockets that were closed after their peers had closed them */
static unsigned long watched_bits[1024 / (8 * sizeof(long))];

static int is_watched(int fd)
{
    return fd >= 0 && fd < 1024 &&
           (watched_bits[fd / (8 * sizeof(long))] >> (fd % (8 * sizeof(long)))) & 1;
}

static void forget(int fd)
{
    for (int i = 0; i < watched_count; i++) {
        if (watched[i] == fd) {
            watched[i] = watched[--watched_count];
            kept[i] = kept[watched_count];
            watched_bits[fd / (8 * sizeof(long))] &= ~(1ul << (fd % (8 * sizeof(long))));
            return;
        }
    }
}

int sockets_open(int domain, int type, int protocol)
{
    int fd = (int)syscall(SYS_socket, domain, type, protocol);

    if (fd >= 0 && fd < 1024 && time_limit_is_kept() && (type & 0xf) == SOCK_STREAM &&
        watched_count < WATCHED && !is_watched(fd)) {
        kept[watched_count] = serving->stage == STAGE_BOOT && !shim.script.loops;
        watched[watched_count++] = fd;
        watched_bits[fd / (8 * sizeof(long))] |= 1ul << (fd % (8 * sizeof(long)));
    }
    return fd;
}

/* A library that finds its connection closed by the peer closes it, too, and goes on to fail in
 * each later request. The descriptors that are left do not show that. */
static void note_lost(int fd)
{
    struct pollfd polled = {.fd = fd, .events = POLLRDHUP};

    for (int i = 0; i < watched_count; i++) {
        if (watched[i] == fd && kept[i] && kernel_poll(&polled, 1, 0) > 0 &&
            (polled.revents & (POLLRDHUP | POLLHUP | POLLERR))) {
            lost++;
        }
    }
}

void sockets_note_closed(int fd)
{
    if (is_watched(fd)) {
        if (shim.script.loops) {
            note_lost(fd);
        }
        forget(fd);
    }
}

int sockets_count_stale(void)
{
    static struct pollfd polled[WATCHED];
    int count = watched_count, stale = 0;

    if (lost || count <= 0 || count > WATCHED) {
        return lost;
    }
    for (int i = 0; i < count; i++) {
        /* In async mode others are in the middle of their requests. */
        kept[i] |= !shim.mode->is_concurrent;
        polled[i] = (struct pollfd){.fd = watched[i], .events = POLLRDHUP};
    }
    if (poll(polled, (nfds_t)count, 0) <= 0) {
        return 0;
    }
    for (int i = 0; i < count; i++) {
        struct sockaddr_storage peer;
        socklen_t len = sizeof(peer);
        struct stat st;
        if (polled[i].revents == 0) {
            continue;
        }
        /* The number may belong to a file by now, or to a socket that never was connected. */
        if ((polled[i].revents & POLLNVAL) || fstat(polled[i].fd, &st) != 0 ||
            !S_ISSOCK(st.st_mode)) {
            forget(polled[i].fd);
        } else if ((polled[i].revents & POLLRDHUP) ||
                   getpeername(polled[i].fd, (void *)&peer, &len) == 0) {
            stale++;
        }
    }
    return stale;
}
