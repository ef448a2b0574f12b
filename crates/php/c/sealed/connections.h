/* What sealed mode keeps across requests: connections to databases.
 * Functions that return int: 0, or -1 if a session is not as it should be. */
#ifndef TOKAMAK_CONNECTIONS_H
#define TOKAMAK_CONNECTIONS_H

#include "ground/state.h"

#define CONNECTIONS_NOT_RESET "the session of a kept connection could not be reset"

ZEND_FUNCTION(tokamak_keep_connections);
size_t connections_size(void);
void connections_learn(void *kept);
int connections_may_be_kept(void);
int connections_are_wanted(void);
/* True: they are open, and this process's memory is to be kept with them. Otherwise it is to be
 * rolled back. */
int connections_open(void);
void connections_keep(void);
void connections_forget(void);
int connections_reset(void);
int connections_await(void);
/* How many were closed by their peers. */
int connections_stale(void);
void connections_note_sent(int fd, const void *at, size_t len);
void connections_note_used(int fd);
void connections_note_closed(int fd);
ssize_t connections_received(int fd, const void *at, size_t room, ssize_t got);
pid_t connections_getpid(void);

#endif
