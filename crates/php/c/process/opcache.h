/* opcache's locks, which are answered for, and its restarts. */
#ifndef TOKAMAK_OPCACHE_H
#define TOKAMAK_OPCACHE_H

#include <stdbool.h>

typedef int (*descriptor_call)(int fd, int command, ...);

/* Whether it is a lock of opcache's, and then the result of that. */
bool opcache_answers_fcntl(descriptor_call real, int fd, int command, void *argument, int *result);
/* Whether the descriptor is that of its lock file. */
int opcache_is_lock_file(int fd);
/* Whether the request uses the cache. */
int opcache_is_used(void);
/* Before each sleep; a sleep may be short, since a wake-up may be meant for another worker. */
void opcache_note_idle(void);
/* A request runs its script. */
void opcache_note_request(void);
/* Locks are not inherited: in a process just forked nothing is held. */
void opcache_forget_locks(void);
/* In an image the lock stays the zygote's, for as long as it lives: a restart of the cache would
 * take the image's code away. */
void opcache_seal(void);
int opcache_restarts(void);

#endif
