/* What the C files of the shim know of each other. */
#ifndef TOKAMAK_PARTS_H
#define TOKAMAK_PARTS_H

#include <signal.h>
#include <sys/time.h>

#include "compat.h"
#include "shim.h"

/* Where the process stands in the life of a request. Output and headers go to different places in each. */
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

typedef struct {
    const shim_config *config;
    const shim_request *request; /* NULL without one */
    shim_stage stage;
    int worker_script;   /* a worker script runs in this process */
    int input_closed;    /* nobody will read the body any more */
    int filter_fed;      /* ext/filter was shown this request's server variables */
    char *joined_cookie; /* several Cookie headers as one; emalloc'd */
    size_t memory;       /* most that PHP held during the last request */
    int is_copy;         /* the script has forked, and this is the child */
    lasting_files *lasting; /* NULL: nothing is rolled back */
    int sealed;          /* requests are served from an image, or will be */
} shim_state;

extern shim_state shim;
extern sapi_module_struct shim_sapi;
extern zend_module_entry shim_module;

/* sapi.c */
void sapi_take_request(const shim_request *request);
void sapi_forget_request(void);
void sapi_end_response(void);
void sapi_slurp_body(void);
void sapi_leave_copy(void);
/* Room for so many pairs; the same memory each time. NULL: there is none. */
shim_pair *sapi_pairs(size_t wanted);
/* Name and value of a header line; false: it is none. */
int sapi_split_header(const sapi_header_struct *header, shim_pair *to);

/* variables.c */
void variables_install(void);
void variables_register(zval *array);
void variables_headers(zval *array);
void variables_feed_filter(void);
char *variables_getenv(const char *name, size_t len);
char *variables_cookies(void);

/* gateway.c */
void gateway_install(int type, int module_number);
void gateway_show_settings(zend_module_entry *module);
int gateway_fixes_path_info(void);
void gateway_log(const char *message);
/* One error about the request, of three parts. Never jumps. */
void gateway_complain(const char *before, const char *text, const char *after);
const shim_text *gateway_parameter(const shim_request *request, const char *name, size_t len);
int gateway_admits(const shim_request *request);
void gateway_refuse(int status, const shim_text *path);
void gateway_note_failure(void);
int gateway_send_headers(sapi_headers_struct *headers, int status);

/* values.c */
/* Before the request begins. */
void values_apply(const shim_request *request);
/* After it has ended, or when the worker script asks for the next one; in sealed mode the roll-back
 * does it. */
void values_undo(void);

/* userini.c */
void userini_activate(const shim_request *request);

/* lifecycle.c */
void lifecycle_settle_signals(int backtrace_signal);
void lifecycle_run(const shim_request *request);
/* Runs a file as the primary script, in its own directory; the path ends with a NUL. */
void lifecycle_execute(const char *path, size_t len);

/* classic.c */
void classic_begin(void);
void classic_end(void);
/* Has C code noticed that is called through FFI. */
void classic_notice_calls(void);
/* Whether this request, or the boot, has called any. */
int classic_called_c(void);
void classic_note_environment(void);
void classic_note_text_domain(void);

/* libraries.c: what extensions and their libraries remember, in classic mode */
void libraries_learn(void);
void libraries_begin(void);
void libraries_put_back(void);
void libraries_note_locale(const char *wanted);
/* Ours is called in the place of a function of PHP, if there is one of that name. class: NULL, or in lower case. */
void libraries_stand_before(const char *class, const char *name, zif_handler *real, zif_handler ours);

/* worker.c */
bool worker_handle(zend_fcall_info *fci, zend_fcall_info_cache *fcc, zval *return_value);
void worker_begin(const shim_request *request);
int worker_cache_restarts(void);

/* sealed.c */
const shim_request *sealed_next(void);
int sealed_is_worker(void);
/* Before the session ends: warns if a warm-up request has opened one. */
void sealed_look_at_session(void);
/* After sapi_activate(); does nothing outside of a sealed worker. */
void sealed_begin(void);
void sealed_end(void) __attribute__((noreturn));

/* shutdown.c: the end of a request in sealed mode */
void shutdown_learn_modules(void);
/* Objects and resources that are there now are the boot's. Returns the first handle of objects that were not, before. */
uint32_t shutdown_draw_line(void);
void shutdown_flush_streams(void);
void shutdown_request(void);

/* randomness.c */
void randomness_watch(void);
/* Why there can be no image; NULL: there can. */
const char *randomness_culprit(void);
/* What draws random numbers seeds itself anew when it is next used. */
void randomness_forget(void);
void randomness_note_fork_handler(void (*prepare)(void), void (*child)(void), const void *library);

/* state.c */
const shim_request *state_next(void);
int state_answered(const shim_request *request);

/* boot.c */
ZEND_FUNCTION(tokamak_substitute_file);
ZEND_FUNCTION(tokamak_watch_file);
ZEND_FUNCTION(tokamak_decline);
HashTable *boot_watched_files(void); /* NULL: none */

/* connections.c: what sealed mode keeps across requests. Those that return int: 0, or -1 when a session is not as it should be */
ZEND_FUNCTION(tokamak_keep_connections);
size_t connections_size(void);
void connections_learn(void *kept);
int connections_are_asked_for(void);
int connections_are_wanted(void);
/* True: they are open, and this process's memory is to be kept with them. Otherwise it is to be rolled back. */
int connections_open(void);
void connections_keep(void);
void connections_forget(void);
int connections_reset(void);
int connections_await(void);
/* How many were closed by their peers. */
int connections_stale(void);
void connections_note_sent(int fd, const void *at, size_t len);
void connections_note_used(int fd);
void connections_note_closed(int fd);
ssize_t connections_recv(int fd, void *at, size_t len, int flags);
pid_t connections_getpid(void);

/* patterns.c */
void patterns_tell(int fd);
void patterns_learn(int fd);
/* Kept memory that it needs, and the moment from which on patterns are noted. */
size_t patterns_size(void);
void patterns_begin(void *memory);
/* At the end of a request. */
void patterns_note(void);
/* Those that more than one request has compiled. Returns how many. */
int patterns_compile(void);

/* heap.c */
void heap_plug(void);
/* All chunks in which nothing is left. */
void heap_give_back(void);

/* world.c */
size_t world_size(void);
void world_learn(void *kept);
void world_begin(void);
/* Closely: the request may have changed what no function of ours sees. */
void world_restore(int closely);
void world_look_at_process(int closely);
void world_note_child(void);
/* The process is to be as it was after the request. */
int world_is_watching(void);
void world_note_directory(void);
void world_note_signal(int number);
void world_note_mask(void);
void world_note_timer(void);
void world_note_umask(void);
void world_note_thread(void);
void world_note_doubt(const char *what);
/* The same, if the process is to be as it was after the request. */
void world_note_irreversible(const char *what);
const char *world_doubt(void);
void world_look_for_threads(void);
void world_watch(void);
void world_put_back(void);

/* descriptors.c: what is open since the boot */
size_t descriptors_size(void);
void descriptors_visit(void (*visit)(int fd, void *), void *context);
/* Those that are open now are the server's. */
void descriptors_note_own(void);
void descriptors_add_own(int fd);
void descriptors_close_sockets(void);
void descriptors_describe_peer(int fd, char *text, size_t size);
/* Each request finds them as they are now. `script`: the file that is being run; NULL: none. */
void descriptors_learn(void *kept, const char *script);
/* Which of them cannot be put back, and what to do; NULL: none. */
const char *descriptors_refusal(void);
void descriptors_begin(void);
/* All from here on are closed by descriptors_restore(). */
int descriptors_first(void);
/* One of these that would not be as it is now after a roll-back; files are, from here on. -1: none */
int descriptors_find_stranger(int (*is_known)(int fd));
/* They are not closed any more; with a number, those from there on are again. Returns the number
 * from before. */
int descriptors_keep(int first);
/* Closely: the request may have changed what no function of ours sees. */
void descriptors_restore(int closely);
/* Whether each still is what it was; notes a doubt otherwise. */
void descriptors_check(void);
/* SQLite may have locked a database that the boot has open. */
int descriptors_were_locked(void);
void descriptors_note_closed(int fd);
void descriptors_note_unseen_closing(void);
void descriptors_note_copied(int fd);
void descriptors_note_fork(void);
void descriptors_note_flock(int fd);
void descriptors_note_posix_lock(int fd);
void descriptors_note_ioctl(int fd, unsigned long request);
void descriptors_note_fcntl(int fd, int command);

/* sqlite.c: databases among the objects from this handle on are the boot's */
void sqlite_learn(uint32_t first);
void sqlite_roll_back(void);

/* semaphores.c */
size_t semaphores_size(void);
const char *semaphores_refusal(void); /* NULL: none is acquired */
void semaphores_learn(void *kept);
void semaphores_restore(void);
struct sembuf;
int semaphores_operate(int set, struct sembuf *operations, size_t count,
                       const struct timespec *patience);

/* reset.c: state that worker mode puts back to what it was when the loop began */
void reset_learn(void);
void reset_restore(void);
void reset_forget(void);
void reset_superglobals(void);
void reset_close_streams(void);
void reset_last_error(void);

/* session.c */
void session_begin(void);
void session_end(void);
void session_learn(void);
void session_restore_handler(void);
void session_forget(void);

/* quiet.c */
void quiet_worker_begins(void);
int quiet_begin_worker(void);
void quiet_seal(void);
void quiet_idle(void);
int quiet_uses_opcache(void);
void quiet_enter_directory_of(const char *file, size_t len);
int quiet_directory_moved(void);
void quiet_return_to(const char *directory);
void quiet_note_directory(void);
void quiet_note_closed(int fd);
/* opcache's, whose locks are answered for. */
int quiet_is_lock_file(int fd);
/* In place of libc's functions; these take the one of libc that was called. */
typedef int (*mask_changer)(int how, const sigset_t *set, sigset_t *before);
typedef int (*descriptor_call)(int fd, int command, ...);
int quiet_setitimer(int which, const struct itimerval *wanted, struct itimerval *before);
int quiet_sigaction(int number, const struct sigaction *action, struct sigaction *before);
sighandler_t quiet_signal(int number, sighandler_t handler);
int quiet_change_mask(mask_changer real, int how, const sigset_t *set, sigset_t *before);
int quiet_fcntl(descriptor_call real, int fd, int command, void *argument);
int quiet_socket(int domain, int type, int protocol);

/* backtrace.c */
void backtrace_install(int signal_number);

#endif
