/* The superglobals of a worker script's requests. */
#ifndef TOKAMAK_SUPERGLOBALS_H
#define TOKAMAK_SUPERGLOBALS_H

#include <stdint.h>

void superglobals_learn(void);
/* For the next request. */
void superglobals_renew(void);

/* In async mode a request goes on while others compile scripts. When it goes: which superglobals it
 * does without, because no script has named them yet. When it comes back: makes those of them that
 * have been named since. */
uint32_t superglobals_unnamed(void);
void superglobals_catch_up(uint32_t unnamed);
/* $_ENV and the environment are as they were learned. */
void superglobals_restore_env(void);
void superglobals_forget(void);

#endif
