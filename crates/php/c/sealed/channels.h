/* The kinds of state outside of the image of memory that sealed mode learns, keeps or puts back. */
#ifndef TOKAMAK_CHANNELS_H
#define TOKAMAK_CHANNELS_H

#include <stdbool.h>
#include <stddef.h>

/* Of what they keep in memory that survives a roll-back. */
size_t channels_size(void);
/* When the boot is over, with that memory: requests find all as it is now. */
void channels_learn(char *kept);
/* What the boot has open or holds that no image can hold; NULL: nothing. */
const char *channels_refusal(void);
/* In a new worker. */
void channels_begin(void);
/* After a request. */
void channels_restore(void);
/* Now and then, after a request: notes a taint if something is not as it should be. */
void channels_check(bool is_first);

#endif
