/* Whom the descriptors of a worker of async mode are connected to, for others to see. */
#ifndef TOKAMAK_PEERS_H
#define TOKAMAK_PEERS_H

#include <sys/socket.h>

#include "shim/shim.h"

/* Before the first request. */
void peers_begin(shim_peers shown);
void peers_end(void);
/* A socket is about to be connected to this address. */
void peers_note(int fd, const struct sockaddr *address, socklen_t len);
/* A descriptor is about to be closed. */
void peers_note_closed(int fd);

#endif
