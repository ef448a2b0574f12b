/* What extensions and their libraries remember, in classic mode. */
#ifndef TOKAMAK_LIBRARIES_H
#define TOKAMAK_LIBRARIES_H

#include "ground/state.h"

void libraries_learn(void);
void libraries_begin(void);
void libraries_put_back(void);

#endif
