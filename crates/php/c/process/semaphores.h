/* System V semaphores that the boot acquired. */
#ifndef TOKAMAK_SEMAPHORES_H
#define TOKAMAK_SEMAPHORES_H

#include "ground/state.h"

size_t semaphores_size(void);
const char *semaphores_refusal(void); /* NULL: none is acquired */
void semaphores_learn(void *kept);
void semaphores_restore(void);
struct sembuf;
int semaphores_operated(int set, const struct sembuf *operations, size_t count, int result);

#endif
