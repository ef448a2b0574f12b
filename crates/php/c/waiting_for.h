/* What the functions that wait in libc's place have in common. Only for those who may park: see
 * fibres_may_park(). */
#ifndef TOKAMAK_WAITING_FOR_H
#define TOKAMAK_WAITING_FOR_H

#include <poll.h>
#include <stdint.h>
#include <time.h>

#include "fibres.h"

#define WAITING_SECOND UINT64_C(1000000000)
#define WAITING_MILLISECOND UINT64_C(1000000)

uint64_t waiting_nanoseconds(const struct timespec *time);
/* The point in time so long from now. */
uint64_t waiting_after(uint64_t patience);
void waiting_until(uint64_t deadline);
/* For tests: others go first, although there is nothing to wait for. */
void waiting_take_turns(void);
/* As poll(). */
int waiting_for_one(int fd, short events, uint64_t deadline);
/* Between two attempts: longer each time, from 0. */
void waiting_pause(uint64_t *pause);

#endif
