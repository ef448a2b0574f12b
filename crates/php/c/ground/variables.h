/* $_SERVER and its connection_group. */
#ifndef TOKAMAK_VARIABLES_H
#define TOKAMAK_VARIABLES_H

#include "ground/state.h"

void variables_install(void);
/* Takes the environment as it is now for that of all requests: $_SERVER begins as a copy of it. */
void variables_learn(void);
void variables_register(zval *array);
void variables_feed_filter(void);
char *variables_getenv(const char *name, size_t len);

#endif
