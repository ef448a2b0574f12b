/* The worker script and its loop. */
#ifndef TOKAMAK_WORKER_H
#define TOKAMAK_WORKER_H

#include "state.h"

bool worker_handle(zend_fcall_info *fci, zend_fcall_info_cache *fcc, zval *return_value);

#endif
