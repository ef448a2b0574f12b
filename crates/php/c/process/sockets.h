/* Which sockets PHP opens. */
#ifndef TOKAMAK_SOCKETS_H
#define TOKAMAK_SOCKETS_H

/* In place of libc's socket(). */
int sockets_open(int domain, int type, int protocol);
void sockets_note_closed(int fd);
/* How many that PHP has open were closed by their peers. */
int sockets_count_stale(void);

#endif
