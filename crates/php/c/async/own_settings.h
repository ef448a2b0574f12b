/* Settings of a process that only functions of PHP return and set: each request of async mode has
 * its own. */
#ifndef TOKAMAK_OWN_SETTINGS_H
#define TOKAMAK_OWN_SETTINGS_H

#include "ground/state.h"

/* After module start-up, before any script is compiled. */
void own_settings_watch(void);
/* In the script, when its loop begins. */
void own_settings_learn(void);
/* The request that is being served goes, comes back, has ended. */
void own_settings_leave(void);
void own_settings_enter(void);
void own_settings_end(void);

#endif
