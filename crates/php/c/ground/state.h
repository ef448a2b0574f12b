/* The state of the process, and the state of the request that it serves.
 *
 * All of a request's state is in `request_state`, and reached through one pointer: a process that
 * has several requests under way changes from one to another by changing the pointer. What each
 * file keeps of the process in variables of its own, tests/it/c_state.rs lists. Sealed mode's notes
 * of what a request changes are apart, in the persistent region: see process_state.c. */
#ifndef TOKAMAK_STATE_H
#define TOKAMAK_STATE_H

#include <signal.h>

#include "ground/compat.h"
#include "ground/mode.h"
#include "shim/shim.h"

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

/* Extensions that the shim calls or reads at each request; NULL: PHP is without it. */
typedef struct {
    zend_module_entry *date, *filter, *libxml, *mbstring, *tidy, *zlib;
} known_modules;

/* The worker script. */
typedef struct {
    int loops; /* it has called handle_request */
    int left;  /* it was asked to stop */
    bool is_over; /* its loop of async mode has ended; there is no other one */
    /* its own shutdown functions, kept aside while requests have theirs */
    HashTable *shutdown_functions;
} script_state;

/* The process. */
typedef struct {
    const shim_config *config;
    const mode *mode;
    known_modules modules;
    const zend_ini_entry *filter_default; /* the setting of this name; NULL: PHP is without it */
    script_state script;
    int worker_script;      /* a worker script runs in this process */
    int is_copy;            /* the script has forked, and this is the child */
    int sealed;             /* requests are served from an image, or will be */
    /* this process goes back after each request; in the image, because it is set before that is
     * taken */
    int rolls_back;
    lasting_files *lasting; /* NULL: nothing is rolled back */
    shim_pair *pairs;       /* for a response with more fields than usual; malloc'd */
    size_t pair_room;
} shim_state;

enum { USUAL_PAIRS = 24 };

/* Where gettext finds the translations of a domain. */
typedef struct {
    char *domain, *directory;
} text_binding;

enum { MOST_FOREIGN = 16, MOST_DOMAINS = 32 };

/* What a request has changed of its process, for the files that put it back. */
typedef struct {
    int environment, text_domain, locale; /* of libc */
    int settings, history, limits, log;   /* of libraries */
    int directory;                        /* by chdir() */
    int threads;                          /* it has made some; they may have ended */
    int called_c;                         /* by FFI */
    /* files and shared memory that were mapped since then */
    size_t foreign_count;
    const void *foreign[MOST_FOREIGN];
    /* as they were before */
    size_t binding_count;
    text_binding bindings[MOST_DOMAINS];
    /* which of the domains that text_domains.c knows it gave a codeset */
    bool has_codeset[MOST_DOMAINS];
} process_changes;

/* The request that it serves. */
typedef struct request_state {
    const shim_request *request; /* NULL without one */
    shim_stage stage;
    int input_closed;    /* the body is not read any more */
    int filter_fed;      /* ext/filter was shown the server variables */
    size_t trailers;     /* bytes of the fields that are to follow the body */
    bool is_head;        /* it is a HEAD over HTTP: PHP need not know that; see sapi.c */
    size_t head_left;    /* bytes of its body that are still passed on */
    char *joined_cookie; /* several Cookie headers as one; emalloc'd */
    char *variable;      /* the last answer of getenv() that was made for it; malloc'd */
    /* settings that it came with, as they were before, by name; NULL: none. malloc'd */
    HashTable *earlier_settings;
    volatile sig_atomic_t seconds_left; /* of processor time; 0: no limit */
    size_t memory;                      /* most bytes that PHP held; also after its end */
    HashTable *context; /* see context.c; NULL: empty. emalloc'd */
    /* in async mode */
    struct request_state *newer; /* of those under way the one that began next; NULL: none */
    uint64_t due;                /* when it is cancelled; see cancellation.c */
    unsigned cause;              /* why; 0: it is not */
    bool ignores_abort;          /* as the setting was when it last waited */
    bool has_left;               /* its client has */
    bool is_cut;                 /* some of its response was not written */
    bool is_held;                /* no other request may run in between */
    struct part *handler;        /* the first of its parts; see parts.h */
    struct own_state *own;           /* see own_state.h */
    struct own_settings *library_settings; /* see own_settings.h; NULL: nothing */
    zend_string *link_text; /* what it opened its default link with; see default_link.c */
    const zend_execute_data *frames; /* its calls, while it waits; NULL: not known */
    /* coroutines: those that are not over, and those whose exception was not awaited so far */
    struct promise *children, *failed;
    bool is_broken; /* one has ended by a fatal error */
    struct reactor_wait *until_childless; /* NULL: it does not wait for that */
    process_changes changes;
    /* for the fields of the response: here and not in a place of their own, which would be one more
     * page for sealed mode to copy back */
    shim_pair pairs[USUAL_PAIRS];
} request_state;

extern shim_state shim;
extern request_state *serving;
/* In async mode: the request that has been under way for longest; NULL: none is. */
extern request_state *oldest_request;
/* In async mode: the calls of the context that was left last for one of another request. The
 * engine's own pointer is these until the switch is over. */
extern const zend_execute_data *frames_left;

#endif
