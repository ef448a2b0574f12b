/* The environment, as PHP's arrays have it. */
#ifndef TOKAMAK_ENVIRONMENT_H
#define TOKAMAK_ENVIRONMENT_H

#include "state.h"

/* It is now as requests are to find it. True: it was not known, or was another one. */
bool environment_learn(void);
/* What was learned, for template_fill(); NULL: the environment is not that one any more, or
 * nothing was learned. */
HashTable *environment_template(void);
/* Adds it to the array, as it is now. */
void environment_import(zval *array);
void environment_install(void);

#endif
