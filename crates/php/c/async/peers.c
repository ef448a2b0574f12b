/* Whom the descriptors of a worker of async mode are connected to, for others to see.
 *
 * A request that waits for a descriptor shows its number (see shown.c). What it means is written
 * here, in shared memory too, when the socket is connected, and not at each wait. The kernel cannot
 * be asked for it from outside: only root may look into /proc/PID/fd of a worker.
 */
#include <stdbool.h>
#include <string.h>

#include "async/peers.h"
#include "ground/state.h"

static shim_peers peers;

/* A copy of the process has the same memory, and descriptors of its own. Other threads may come
 * here too: what they write at the same time is an address that is not awaited. */
static bool is_shown(int fd)
{
    return peers.table && fd >= 0 && fd < SHIM_PEERS && !shim.is_copy;
}

void peers_note(int fd, const struct sockaddr *address, socklen_t len)
{
    shim_peer *peer;

    if (!is_shown(fd) || !address) {
        return;
    }
    peer = &peers.table[fd];
    peer->len = 0;
    len = len < sizeof(peer->address) ? len : sizeof(peer->address);
    memcpy(peer->address, address, len);
    peer->owner = peers.owner;
    peer->len = len;
}

void peers_note_closed(int fd)
{
    if (is_shown(fd) && peers.table[fd].len != 0) {
        peers.table[fd].len = 0;
    }
}

/* Those that the script has connected before its loop. */
static void learn(int fd)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof(address);

    if (getpeername(fd, (struct sockaddr *)&address, &len) == 0) {
        peers_note(fd, (struct sockaddr *)&address, len);
    }
}

void peers_begin(shim_peers shown)
{
    peers = shown;
    for (int fd = 0; peers.table && fd < SHIM_PEERS; fd++) {
        learn(fd);
    }
}

void peers_end(void)
{
    peers = (shim_peers){0};
}
