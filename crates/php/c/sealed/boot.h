/* Functions that boot scripts call. */
#ifndef TOKAMAK_BOOT_H
#define TOKAMAK_BOOT_H

#include "ground/state.h"

ZEND_FUNCTION(tokamak_substitute_file);
ZEND_FUNCTION(tokamak_watch_file);
ZEND_FUNCTION(tokamak_decline);

#endif
