/* What the functions that wait in libc's place have in common. Only for those who may park: see
 * fibers_may_park(). */
#ifndef TOKAMAK_WAITING_FOR_H
#define TOKAMAK_WAITING_FOR_H

#include <poll.h>
#include <stdint.h>
#include <time.h>

#include "async/fibers.h"

#define WAITING_SECOND UINT64_C(1000000000)
#define WAITING_MILLISECOND UINT64_C(1000000)

uint64_t waiting_nanoseconds(const struct timespec *time);
/* The point in time so long from now. */
uint64_t waiting_after(uint64_t patience);
/* False: it was broken off, as all waits that are: see fibers_park(). */
bool waiting_until(uint64_t deadline);
/* For tests: others go first, although there is nothing to wait for. */
void waiting_take_turns(void);
/* Nothing is to be read there for now. */
void waiting_note_empty(int fd);
/* Something was sent there, to which the answer takes its time. */
void waiting_note_sent(int fd);
/* Whether that was the last thing that the function of PHP which runs has done. Only once. */
bool waiting_has_just_sent(int fd);
/* As poll(), for what the descriptor stands for; -1 with ECANCELED: it was broken off. */
int waiting_for_one(int fd, short events, uint64_t deadline, uint8_t kind);
/* When to try again: longer each time, from 0. */
uint64_t waiting_next_attempt(uint64_t *pause);
/* Until then, for something of this kind. False: as waiting_until(). */
bool waiting_pause(uint64_t *pause, uint8_t kind);

/* Makes a call that waits as libc does, and so holds all requests of the worker: it is counted. */
#define WAITING_HELD(call)                  \
    ({                                      \
        const uint64_t since = waiting_hold(); \
        const __typeof__(call) result = (call); \
        waiting_note_held(since);           \
        result;                             \
    })
uint64_t waiting_hold(void);
void waiting_note_held(uint64_t since);

#endif
