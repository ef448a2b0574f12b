/* What is open since the boot. */
#ifndef TOKAMAK_DESCRIPTORS_H
#define TOKAMAK_DESCRIPTORS_H

#include "ground/state.h"

size_t descriptors_size(void);
void descriptors_visit(void (*visit)(int fd, void *), void *context);
/* Those that are open now are the server's. */
void descriptors_note_own(void);
void descriptors_add_own(int fd);
/* Of the boot; how many there were. */
int descriptors_close_sockets(void);
void descriptors_describe_peer(int fd, char *text, size_t size);
/* Requests are about to begin: see descriptors_boot_learn(). */
void descriptors_learn(void *kept);
/* Which of them cannot be put back, and what to do; NULL: none. */
const char *descriptors_refusal(void);
void descriptors_begin(void);
/* All from here on are closed by descriptors_restore(). */
int descriptors_first(void);
/* One of these that would not be as it is now after a roll-back; files are, from here on. -1:
 * none */
int descriptors_find_stranger(int (*is_known)(int fd));
/* They are not closed any more; with a number, those from there on are again. Returns the number
 * from before. */
int descriptors_keep(int first);
/* Closely: the request may have changed what no function of ours sees. */
void descriptors_restore(int closely);
/* Whether each still is what it was; notes a taint otherwise. */
void descriptors_check(void);
/* Whether a request had so many open that closing what is open takes long from now on: the kernel's
 * table of them never shrinks, and all of it is looked through. */
int descriptors_table_has_grown(void);
/* SQLite may have locked a database that the boot has open. */
int descriptors_were_locked(void);
void descriptors_note_closed(int fd);
void descriptors_note_unseen_closing(void);
void descriptors_note_copied(int fd);
void descriptors_note_fork(void);
void descriptors_note_flock(int fd);
void descriptors_note_posix_lock(int fd);
void descriptors_note_ioctl(int fd, unsigned long request);
void descriptors_note_fcntl(int fd, int command);

#endif
