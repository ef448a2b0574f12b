/* The end of a request that has reached its memory limit. */
#ifndef TOKAMAK_OUT_OF_MEMORY_H
#define TOKAMAK_OUT_OF_MEMORY_H

#include "ground/compat.h"

#ifdef ZEND_HAS_OOM
/* In place of zend_handle_delayed_oom(), which is `raise`. May jump. */
void out_of_memory_raise(void (*raise)(void));
#endif
/* After php_request_shutdown(): the limit is what it was. */
void out_of_memory_reset(void);

#endif
