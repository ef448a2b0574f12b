/* Async mode: one worker script, many requests at once. */
#ifndef TOKAMAK_ASYNC_H
#define TOKAMAK_ASYNC_H

#include "ground/state.h"

/* Serves requests until the worker is to end, or (false) its script is to be run anew. May
 * throw. */
bool async_serve(zend_fcall_info *fci, zend_fcall_info_cache *fcc);
/* The response and the body of the request whose turn it is: others run while the server is not
 * ready for it. As rust_write() and rust_read_body(). */
int async_write(shim_part part, const char *at, size_t len);
size_t async_read_body(char *at, size_t len);

#endif
