/* What each mode does in its own way. The constants are in top/modes.c; files on lower floors call
 * what stands there and need not ask which mode it is. */
#ifndef TOKAMAK_MODE_H
#define TOKAMAK_MODE_H

#include "shim/shim.h"

#include <stdbool.h>

#include "ground/compat.h"

typedef struct mode {
    /* Several requests are under way at once. */
    bool is_concurrent;
    /* After each request the memory of the process goes back to what it was before. */
    bool restores_memory;
    /* What was loaded at the boot is served until the process is replaced: changes of files and of
     * opcache are seen by who replaces it. */
    bool keeps_code;

    /* A worker script asks for requests for the first time: the boot is over. */
    void (*booted)(void);
    /* Requests are served by calls of this handler until the worker is to end, or (false) its
     * script is to be run anew; NULL: one request at a time comes out of `next`. May throw. */
    bool (*serve)(zend_fcall_info *fci, zend_fcall_info_cache *fcc);
    /* The next request; NULL: leave the loop. */
    const shim_request *(*next)(void);
    /* Instead of all that the script would do after a request; called if `shim.rolls_back`. */
    void (*end)(void);

    /* A request has begun for the SAPI, and not yet for the script. */
    void (*begin)(void);
    /* Its handler and its shutdown functions are over, and output may still come; each is called
     * outside of all functions, and may jump. */
    void (*end_values)(void);
    void (*end_coroutines)(void);
    /* Its session is about to be written. */
    void (*look_at_session)(void);

    /* As rust_write() and rust_read_body(). */
    int (*write)(shim_part part, const char *at, size_t len);
    size_t (*read_body)(char *at, size_t len);
    /* The client has gone. May jump. */
    void (*client_left)(void);
    /* A second of processor time has passed. In a signal handler. */
    void (*tick)(void);
} mode;

#endif
