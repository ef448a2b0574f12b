/* The worker script and its loop. */
#ifndef TOKAMAK_WORKER_SCRIPT_H
#define TOKAMAK_WORKER_SCRIPT_H

#include "ground/state.h"

bool worker_script_handle(zend_fcall_info *fci, zend_fcall_info_cache *fcc, zval *return_value);

#endif
