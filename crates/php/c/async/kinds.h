/* What kinds of files are behind descriptors, so that it need not be asked at each call. */
#ifndef TOKAMAK_KINDS_H
#define TOKAMAK_KINDS_H

#include <stdbool.h>
#include <sys/types.h>

typedef enum {
    KIND_UNKNOWN,
    KIND_FILE,   /* or a directory, a disk: never waits for others */
    KIND_SOCKET,
    KIND_EVENTS, /* eventfd and its like: reading may wait, writing does not */
    KIND_OTHER   /* pipes, terminals, ...: poll() says whether it would wait */
} descriptor_kind;

/* In a process that may be asked. */
void kinds_begin(void);
descriptor_kind kinds_of(int fd);
/* It was opened just now, and its mode is known. */
void kinds_note(int fd, mode_t mode);
/* The locks by fcntl() of this file are of the open file, and not of the process. Not if it was
 * open when the loop began: a file that is open since before the fork (opcache's lock) is the same
 * open file in all workers, which would not exclude each other. */
void kinds_note_own_locks(int fd);
bool kinds_has_own_locks(int fd);
/* A descriptor is about to be closed, or to become another; on whatever thread. */
void kinds_forget(int fd);

#endif
