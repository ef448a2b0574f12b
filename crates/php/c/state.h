/* The state of the process, and the state of the request that it serves. Each file keeps more of
 * both to itself; this is what several of them need. */
#ifndef TOKAMAK_STATE_H
#define TOKAMAK_STATE_H

#include "compat.h"
#include "shim.h"

/* Where the process stands in the life of a request. Output and headers go to different places in
 * each. */
typedef enum {
    STAGE_OUTSIDE, /* start-up, or between two requests of classic mode */
    STAGE_BOOT,    /* a worker script runs and holds no request: output goes to the log */
    STAGE_REQUEST, /* a request is being served */
    STAGE_LATE     /* its response is complete, the script goes on: output is dropped */
} shim_stage;

/* What is known of a path, by its hash, until then (seconds). */
typedef struct {
    zend_ulong hash;
    time_t until;
} lasting_place;

enum { LASTING_PLACES = 64 };

/* Knowledge about files that a roll-back must not take: nothing of a request is in it. */
typedef struct {
    lasting_place scripts[LASTING_PLACES];          /* may be run */
    lasting_place without_settings[LASTING_PLACES]; /* directories without a .user.ini */
} lasting_files;

/* Extensions that are asked or told something at each request; NULL: PHP is without it. */
typedef struct {
    zend_module_entry *date, *filter, *mbstring, *tidy, *zlib;
} known_modules;

/* The worker script. */
typedef struct {
    int loops; /* it has called handle_request */
    int left;  /* it was told to leave */
    /* its own shutdown functions, kept aside while requests have theirs */
    HashTable *shutdown_functions;
} script_state;

/* The process. */
typedef struct {
    const shim_config *config;
    known_modules modules;
    script_state script;
    int worker_script;      /* a worker script runs in this process */
    int is_copy;            /* the script has forked, and this is the child */
    int sealed;             /* requests are served from an image, or will be */
    size_t memory;          /* most bytes that PHP held during the last request */
    lasting_files *lasting; /* NULL: nothing is rolled back */
} shim_state;

/* The request that it serves. */
typedef struct {
    const shim_request *request; /* NULL without one */
    shim_stage stage;
    int input_closed;    /* the body is not read any more */
    int filter_fed;      /* ext/filter was shown the server variables */
    char *joined_cookie; /* several Cookie headers as one; emalloc'd */
    char *variable;      /* the last answer of getenv() that was made for it; malloc'd */
} request_state;

extern shim_state shim;
extern request_state serving;

#endif
