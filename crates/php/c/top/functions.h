/* The functions that the server adds to PHP. */
#ifndef TOKAMAK_FUNCTIONS_H
#define TOKAMAK_FUNCTIONS_H

#include "ground/state.h"

extern zend_module_entry shim_module;

#endif
