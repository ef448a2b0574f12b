/* PHP's cache of compiled regular expressions. */
#ifndef TOKAMAK_PATTERNS_H
#define TOKAMAK_PATTERNS_H

#include "ground/state.h"

void patterns_send(int fd);
void patterns_learn(int fd);
/* What it needs of the persistent region, and the moment from which on patterns are noted. */
size_t patterns_size(void);
void patterns_begin(void *memory);
/* At the end of a request. */
void patterns_note(void);
/* Those that more than one has compiled of so many requests, which were noted since the last time.
 * Returns how many. */
int patterns_compile(uint64_t requests);

#endif
