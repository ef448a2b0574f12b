/* The whole contract between the C side, which talks to libphp, and the Rust side, which talks to
 * the queue.
 *
 * Why C at all: a PHP fatal error longjmps to the nearest zend_try. A Rust frame crossed by that
 * jump would skip its destructors, so every zend_try and everything between it and PHP stays on
 * this side.
 *
 * shim_* is called by Rust; a PHP error never leaves it, the outcome is a plain value. rust_* is
 * called by C, returns a plain value and never jumps; the C caller decides about bailing out after
 * Rust has returned.
 */
#ifndef TOKAMAK_SHIM_H
#define TOKAMAK_SHIM_H

#include <stddef.h>
#include <stdint.h>

#define SHIM_VERSION 11

/* Bytes followed by a NUL that `len` does not count. */
typedef struct {
    const char *at;
    size_t len;
} shim_text;

typedef struct {
    shim_text name;
    shim_text value;
} shim_pair;

/* Fields of a request, in the order of the queue's record. The text is the key in $_SERVER; the
 * fields without one are not handed to PHP as they are. */
#define SHIM_FIELDS(X) \
    X(METHOD, "REQUEST_METHOD") \
    X(URI, "REQUEST_URI") \
    X(QUERY, "QUERY_STRING") \
    X(SCRIPT_FILENAME, "SCRIPT_FILENAME") \
    X(SCRIPT_NAME, "SCRIPT_NAME") \
    X(PATH_INFO, "PATH_INFO") \
    X(DOCUMENT_ROOT, "DOCUMENT_ROOT") \
    X(DOCUMENT_URI, "DOCUMENT_URI") \
    X(SERVER_NAME, "SERVER_NAME") \
    X(SERVER_ADDR, "SERVER_ADDR") \
    X(SERVER_PORT, "SERVER_PORT") \
    X(REMOTE_ADDR, "REMOTE_ADDR") \
    X(REMOTE_PORT, "REMOTE_PORT") \
    X(PROTOCOL, "SERVER_PROTOCOL") \
    X(SCHEME, "REQUEST_SCHEME") \
    X(CONTENT_TYPE, "CONTENT_TYPE") \
    X(CONTENT_LENGTH, "CONTENT_LENGTH")

enum {
#define SHIM_FIELD(name, key) SHIM_##name,
    SHIM_FIELDS(SHIM_FIELD)
#undef SHIM_FIELD
    SHIM_FIELD_COUNT
};

/* What is to be done with a request over FastCGI. */
enum { SHIM_RUN, SHIM_UNKNOWN, SHIM_DENIED, SHIM_NOTHING };

/* What a request of async mode does, in memory that others read: crates/sys/src/queue/doing.rs. The
 * lowest byte of the state is one of these, the next counts further waits of the request. What is
 * above is the descriptor, or the time until which it sleeps, in microseconds of
 * CLOCK_MONOTONIC. */
enum {
    SHIM_RUNS,
    SHIM_READY, /* its wait is over; others run */
    SHIM_SLEEPS,
    SHIM_AWAITS_DESCRIPTOR,
    SHIM_AWAITS_ROOM, /* for its response */
    SHIM_AWAITS_BODY,
    SHIM_AWAITS_LOCK,
    SHIM_AWAITS_SEMAPHORE,
    SHIM_AWAITS_MESSAGE, /* of a queue of System V, or room there */
    SHIM_AWAITS_PROCESS,
    SHIM_AWAITS_SIGNAL,
    SHIM_AWAITS_NAME,
    SHIM_AWAITS_PIPE,   /* its other end */
    SHIM_AWAITS_LISTENER, /* that has too many connections to accept one more */
    SHIM_AWAITS_OTHERS, /* coroutines, or code that completes a Deferred */
    SHIM_SUSPENDED      /* by Fiber::suspend() */
};
typedef struct {
    volatile uint64_t since; /* nanoseconds of CLOCK_MONOTONIC */
    volatile uint64_t state;
} shim_doing;

/* What a request has called, in memory that others read: crates/sys/src/queue/calls.rs. */
enum { SHIM_CALL_SQL, SHIM_CALL_HTTP, SHIM_CALL_KINDS };
typedef struct {
    volatile uint32_t count;
    volatile uint32_t open; /* calls that have not returned */
    /* Nanoseconds of all calls; each open one has taken away the time of its begin. */
    volatile uint64_t time;
} shim_call_sum;
typedef struct {
    shim_call_sum sum[SHIM_CALL_KINDS];
    /* The longest call that has returned: its nanoseconds, and its kind. */
    volatile uint64_t longest, longest_kind;
    /* The call that began last: when (0: it has returned), and its kind. */
    volatile uint64_t latest, latest_kind;
} shim_calls;

/* Whom a descriptor is connected to: an address as connect() has it. */
typedef struct {
    volatile uint32_t len; /* 0: nobody */
    uint32_t owner;
    unsigned char address[56];
} shim_peer;
/* Those of a worker, by descriptor; NULL: it has none to write. */
enum { SHIM_PEERS = 1024 };
typedef struct {
    shim_peer *table;
    uint32_t owner; /* this worker, to tell it from those that had its place before */
} shim_peers;

/* What is written of a response: its body, and the fields that follow it, as lines that end with
 * CR LF. */
typedef enum { SHIM_BODY, SHIM_TRAILERS } shim_part;
/* Most bytes of those lines; the front refuses more. */
enum { SHIM_TRAILERS_MOST = 8192 };
/* Bytes of the body of a HEAD that are passed on: one more than the front takes for the whole. */
enum { SHIM_HEAD_BODY_MOST = 64 * 1024 + 1 };

/* A request in memory of the worker's own: valid until the next one is asked for, also after its
 * response. Over FastCGI it has parameters, in the order for scripts, and the fields are what was
 * found out from them. Otherwise the parameters are what an authorizer has said of it, and count
 * more than fields and headers. */
typedef struct {
    shim_text field[SHIM_FIELD_COUNT];
    const shim_pair *headers;
    size_t header_count;
    const shim_pair *parameters;
    size_t parameter_count;
    uint64_t body_len;
    uint64_t begun;     /* nanoseconds of CLOCK_MONOTONIC when it was taken; 0: to warm up */
    uint64_t due;       /* nanoseconds of CLOCK_MONOTONIC by which it is to end */
    shim_doing *doing;  /* in async mode, never NULL; others have the slot after the response */
    shim_calls *calls;  /* never NULL; nobody reads it after the response */
    uint32_t is_fastcgi;
    uint32_t verdict;
    uint32_t place;     /* among those that are under way */
    uint32_t ticket;    /* of the queue */
    uint32_t slot;      /* of the queue, while there is no whole response */
    uint32_t padding;
} shim_request;

/* The settings by which a request over FastCGI finds its script. */
typedef struct {
    uint32_t fix_pathinfo, discard_path;
    const char *doc_root; /* NULL: not set */
} shim_gateway;

/* What worker mode resets between requests, as bits of shim_config.reset. */
enum {
    SHIM_RESET_INI = 1 << 0,
    SHIM_RESET_ERROR_HANDLERS = 1 << 1,
    SHIM_RESET_CWD = 1 << 2,
    SHIM_RESET_UMASK = 1 << 3,
    SHIM_RESET_LOCALE = 1 << 4,
    SHIM_RESET_TIMEZONE = 1 << 5,
    SHIM_RESET_ENCODINGS = 1 << 6,
    SHIM_RESET_ENV = 1 << 7,
    SHIM_RESET_SESSION = 1 << 8
};

/* Lives as long as the process. */
typedef struct {
    uint32_t version;
    uint32_t reset;
    const char *software;       /* SERVER_SOFTWARE */
    const char *site;           /* its name */
    const char *ini;            /* php.ini text that overrides the file; NULL: none */
    const char *const *locked;  /* settings that scripts cannot change */
    size_t locked_count;
    const char *root;           /* DOCUMENT_ROOT of a worker script */
    /* what strings of the seal report's requests contain; NULL: nobody asks for a report */
    const char *report;
    const char *ini_file;       /* where php.ini is; NULL: where PHP looks for it */
    const char *ini_of;         /* the SAPI whose php.ini and conf.d are read; NULL: libphp's own */
    uint32_t no_ini;            /* no php.ini */
    uint32_t extended_info;     /* scripts are compiled for debuggers */
    uint32_t concurrency;       /* requests under way at once, in async mode; 0: another mode */
    uint32_t seed;              /* for tests: requests take turns at random; 0: in order */
    uint32_t count_calls;       /* what requests call in databases and in other servers */
    uint32_t padding;
} shim_config;

/* A worker's place on the board, and which of those that had it this one is. Its
 * /proc/self/pagemap, which a process that nobody may trace cannot open; below 0 the number of an
 * error. */
typedef struct {
    uint32_t index, instance;
    int page_map;
} shim_seat;

enum { SHIM_SHOW_VERSION, SHIM_SHOW_MODULES, SHIM_SHOW_INFO, SHIM_SHOW_SETTINGS };

/* One worker, as fpm_get_status shows it. */
typedef struct {
    uint64_t pid, requests, memory, since_ns, started_ns, body_len, last_cpu_us, last_took_ns;
    const char *state;
    shim_text method, uri, script, user;
} shim_place;

/* A pool of php-fpm's kind; a manager of 0: it is none. */
typedef struct {
    uint64_t manager, started, accepted, listen_queue, max_listen_queue, listen_queue_len;
    uint64_t max_active, max_children_reached, slow_requests;
} shim_pool;

_Static_assert(sizeof(shim_text) == 16 && sizeof(shim_pair) == 32, "texts are two words");
_Static_assert(sizeof(shim_request) == 16 * SHIM_FIELD_COUNT + 96, "no padding in a request");
_Static_assert(sizeof(shim_config) == 104 && sizeof(shim_place) == 136 &&
                   sizeof(shim_gateway) == 16 && sizeof(shim_seat) == 12,
               "no padding in the rest");
_Static_assert(sizeof(shim_doing) == 16 && sizeof(shim_peer) == 64 && sizeof(shim_calls) == 64,
               "as the queue has them");

typedef enum { SHIM_DONE, SHIM_BAILED, SHIM_NO_START } shim_outcome;
typedef enum { SHIM_LEFT, SHIM_ENDED, SHIM_CRASHED, SHIM_NEVER_LOOPED } shim_exit;
typedef enum { SHIM_INFO, SHIM_WARN, SHIM_ERROR, SHIM_OUTPUT, SHIM_DEBUG } shim_level;

/* Module start-up; 0 when PHP is ready. Once, in the zygote. */
int shim_start(const shim_config *config);
/* Prints versions, php.ini, extensions, opcache. After shim_start. */
void shim_info(void);
/* Prints what php-fpm does with -v, -m or -i. After shim_start. */
void shim_show(int what);
const char *shim_php_version(void);
/* expose_php, as php.ini and the settings say. After shim_start. */
int shim_exposes_php(void);
/* A worker begins: timers and signals that a fork does not bring along. */
void shim_worker_begins(int backtrace_signal);
void shim_gateway_settings(shim_gateway *gateway);
/* What stands at a path that need not end with a NUL: 0 nothing, 1 a file, 2 something else. */
int shim_file_kind(const char *path, size_t len);
/* One request, classic mode. The response has a head and an end when it returns, unless
 * SHIM_NO_START. */
shim_outcome shim_serve(const shim_request *request);
/* The worker script, from its first line until it ends; asks rust_next for each request. */
shim_exit shim_run_script(const char *script);
/* Sealed mode, in the zygote: boots with this script (a worker script; with is_boot one that only
 * prepares; NULL: none), takes the image, and calls rust_fork_workers(). Returns when the boot
 * failed. The page map is the zygote's, as in shim_seat; the line is another descriptor of its
 * own. */
shim_exit shim_run_sealed(const char *script, int is_boot, int backtrace_signal, int page_map,
                          int line);
/* What is newer than the image: tokamak_sys::control::Newer. */
enum { SHIM_SETTINGS, SHIM_APPLICATION, SHIM_CACHE };
/* In the zygote: what has changed since it was last asked, or since the boot looked; NULL:
 * nothing. */
const char *shim_outdated(int *newer);
/* Whether anything has changed on which the boot depends. */
int shim_boot_changed(void);
/* A descriptor that is readable when something of that changes, as far as the kernel says so; below
 * 0: there is none. */
int shim_watch_boot(void);
/* The same of a boot of which no image could be taken, for the next zygote: a descriptor, below 0
 * if there is none; and there, which takes it. */
int shim_save_boot_files(void);
void shim_load_boot_files(int fd);
/* Before the boot of a worker: what this process loads from here on is as it is by then. */
void shim_looks_at_each_file(void);
/* In a process that stands in for an image: no cache answers for a file without a look at it. If it
 * boots for one request, what the boot depends on is noted from here on. */
void shim_boots_afresh(int for_one_request);
/* In classic mode: requests run this script first. The text stays. */
void shim_boot_each_request(const char *script);
/* In the zygote, before it forks: what the kernel keeps for it is as it should be. */
void shim_zygote_begins(void);
/* In the zygote: what of that was changed from outside; NULL: nothing. */
const char *shim_zygote_changed(void);
/* The worker is about to sleep: lets go of what others may wait for. */
void shim_idle(void);
/* Sealed mode: whether this worker has used no slot of the queue with this number yet. From then on
 * it has. */
int shim_is_new_slot(uint32_t slot);
/* How many sockets that PHP has open were closed by their peers. */
int shim_stale_sockets(void);
/* Bytes that the Zend memory manager held for the last request. */
size_t shim_memory(void);
/* In async mode: waits that held all of the worker's requests. */
uint32_t shim_held(void);
/* In the zygote: where a worker is, as text for the error log: the name of its request in a line
 * (empty: it has none), then one for each call, the innermost first. Of the request with this slot
 * in async mode, or of what runs (SHIM_NOBODY). The memory is the worker's /proc/self/mem, or -1. 0
 * bytes: it cannot be read. The text lives until the next one. */
size_t shim_stack(int pid, int memory, uint32_t slot, const char **text);
/* Whether a process, which is stopped, is in memory that it shares with others (APCu's, opcache's):
 * extensions let PHP put signals off as long as they hold a lock of such memory, or wait for one.
 * 0 if that cannot be known. */
int shim_is_in_locks(int pid, int memory);
/* Whether what such a process does there is APCu's own work, and not that of a script's function
 * which APCu has called. */
int shim_waits_in_apcu(int pid, int memory);
/* Has a worker whose memory cannot be read write that to its standard error, on that signal. */
void shim_backtrace(int pid, uint32_t slot, int signal_number);
/* For the slow log of a pool of php-fpm: the script's file in a line, then one for each call, the
 * innermost first, with address, function, file and line number between tabs. 0 bytes: the worker's
 * memory cannot be read. */
size_t shim_trace(int pid, int memory, const char **text);
/* For a profile, in a process that the zygote has forked: the stacks of a worker now, of the
 * request that runs and, in async mode, of those that wait. Each is a line with one of these
 * letters and the request's URI, then a line for each call, the innermost first, with name, file
 * and first line number between tabs (main scripts have no name), then an empty line. 0: the memory
 * cannot be read. The text lives until the next one. */
enum { SHIM_SAMPLE_RUNS = 'R', SHIM_SAMPLE_WAITS = 'W', SHIM_SAMPLE_TORN = 'T' };
int shim_sample(int pid, int memory, const char **text, size_t *len);

/* The next request; NULL: leave the loop. Worker mode only. */
const shim_request *rust_next(void);
/* Async mode: looks for the next request, and does not wait. With will_sleep the worker waits for
 * other things if there is none, and its doorbell is rung for the next one until it looks again. */
enum { SHIM_NO_REQUEST, SHIM_REQUEST, SHIM_LEAVE };
int rust_look(int will_sleep, const shim_request **request);
/* The worker does not look again, for reasons of its own: another one is rung in its place. */
void rust_look_no_more(int will_leave);
/* Whether the server ends with the requests that it has. */
int rust_is_draining(void);
/* What is called from here on is about the request at this place, or about none. */
#define SHIM_NOBODY UINT32_MAX
void rust_serve(uint32_t place);
/* It is over; the memory of the request at this place is Rust's again. */
void rust_forget(uint32_t place);
/* The place of a request whose client has left; each is told once. SHIM_NOBODY: no more. */
uint32_t rust_left(void);
/* Whether the client of the request whose turn it is has left. */
int rust_client_left(void);
/* What becomes readable when the worker is to look, for requests or for room; -1: there is none. */
int rust_doorbell(void);
/* Where the worker says whom its descriptors are connected to. */
void rust_peers(shim_peers *peers);
/* As much of the body, or of the trailers, as there is room for now; below 0: nobody reads any
 * more. */
ptrdiff_t rust_write_now(shim_part part, const char *at, size_t len);
/* What of the body is there now; -1: nothing yet; below: the rest will not come. */
ptrdiff_t rust_read_body_now(char *at, size_t len);
/* The next request to warm up with; NULL: there are no more. */
const shim_request *rust_warm(void);
/* The image is taken, or cannot be, for this reason. Forks workers until the zygote ends; returns
 * in each worker, with its place: C makes a worker of that process. */
shim_seat rust_fork_workers(void);
/* No image can be taken: ends this process, and has the site run in another mode. */
_Noreturn void rust_refuse_image(const char *reason);
/* A worker that could not begin, for this reason. */
_Noreturn void rust_fail(const char *reason);
/* Memory went back: which worker this is, how many requests it has served, how long the way back
 * took, and how many pages were copied. */
void rust_resume(uint32_t index, uint32_t instance, uint64_t served, uint64_t took_ns,
                 uint32_t pages);
/* The worker ends, because it was told to, or because something could not be undone. */
_Noreturn void rust_leave(const char *doubt);
/* The response is complete (or, with a true value, cut short), with the status that PHP has in the
 * end. Once a request. */
void rust_finish(int broken, int status);
/* 0, or 1 when nobody reads any more. */
int rust_head(int status, const shim_pair *headers, size_t count, int interim);
int rust_write(shim_part part, const char *at, size_t len);
int rust_flush(void);
/* Fills the buffer unless the body ends before. */
size_t rust_read_body(char *at, size_t len);
/* One line to the server's error log. */
void rust_log(shim_level level, const char *at, size_t len);

/* The status for a script that cannot be opened, by the error's number. */
int rust_unopened_status(int error);
/* The text of a class that is written in PHP, without its opening tag, by its name in lower case.
 * 0: there is none. */
int rust_class(const char *name, size_t len, shim_text *text);
/* Says something about a request over FastCGI: to its sender, if to_sender, and to standard
 * error. 1: nobody reads. */
int rust_complain(shim_level level, const char *at, size_t len, int to_sender);
/* The user of its authentication. */
void rust_user(const char *at, size_t len);
void rust_pool(shim_pool *pool);
/* Worker number n of the pool; 0 when there are no more. */
int rust_place(size_t n, shim_place *place);

#endif
