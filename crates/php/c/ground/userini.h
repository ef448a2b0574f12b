/* .user.ini. */
#ifndef TOKAMAK_USERINI_H
#define TOKAMAK_USERINI_H

#include "ground/state.h"

void userini_activate(const shim_request *request);

#endif
