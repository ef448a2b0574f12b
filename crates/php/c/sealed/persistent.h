/* Persistent resources of the boot: connections that PHP would keep for later requests. */
#ifndef TOKAMAK_PERSISTENT_H
#define TOKAMAK_PERSISTENT_H

#include <stdint.h>

/* Before the image is taken: takes all of them out of PHP's list, so that requests make their own.
 * Those that nothing uses any more are ended. */
void persistent_take_out(void);
/* Says which values of the boot hold one; `closed`: how many sockets of the boot were closed. */
void persistent_warn(int closed);
/* In a worker that has opened connections which last: gives them to values of the boot that hold
 * one of the same name. */
void persistent_hand_over(void);
/* Lists who holds one, for the report. */
void persistent_push(void);

#endif
