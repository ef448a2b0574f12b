/* The environment, as PHP's arrays have it. */
#ifndef TOKAMAK_ENVIRONMENT_H
#define TOKAMAK_ENVIRONMENT_H

#include "ground/state.h"

/* Takes the environment as it is now for that of all requests. False if it was that already. */
bool environment_learn(void);
/* The learned environment, for template_fill(). NULL if none is learned, or if the environment has
 * changed since. */
HashTable *environment_template(void);
/* Adds the present environment to the array. */
void environment_import(zval *array);
/* Notes how PHP itself imports the environment, before anybody replaces that. */
void environment_install(void);

#endif
