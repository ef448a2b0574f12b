/* Notifies every part of the shim that observes descriptors and processes. */
#ifndef TOKAMAK_OBSERVERS_H
#define TOKAMAK_OBSERVERS_H

#include "process/opcache.h"

/* It is about to be closed; and so by libc, inside one of its functions. */
void observers_closed(int fd);
void observers_closed_inside(int fd);
/* Of a range, which mostly ends at the highest number there is. */
void observers_closed_range(unsigned first, unsigned last);
void observers_range(unsigned first, unsigned last, int flags);
/* There is to be another one for the same file; and it takes the place of `to`. */
void observers_copied(int fd);
void observers_replaced(int from, int to);
/* In place of libc's function, which is given. */
int observers_fcntl(descriptor_call real, int fd, int command, void *argument);
/* A program is started. */
void observers_child(void);

#endif
