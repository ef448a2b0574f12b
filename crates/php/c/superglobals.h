/* The superglobals of a worker script's requests. */
#ifndef TOKAMAK_SUPERGLOBALS_H
#define TOKAMAK_SUPERGLOBALS_H

void superglobals_learn(void);
/* For the next request. */
void superglobals_renew(void);
/* $_ENV and the environment are as they were learned. */
void superglobals_restore_env(void);
void superglobals_forget(void);

#endif
