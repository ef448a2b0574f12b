/* Generators of random numbers that have a state, and the image of sealed mode.
 *
 * A state in the image would give every request of every worker the same numbers, the keys of TLS
 * connections among them. When the image is taken, each generator is left so that it seeds itself
 * when a request first uses it:
 *
 *   PHP's, GMP's   forgotten, as at the start of a request
 *   SQLite's       forgotten, by its own function
 *   GnuTLS and     they look whether the process was forked since they were seeded, by a count that
 *   its like       their handler of pthread_atfork() keeps. A roll-back takes the count back. So the
 *                  handlers are called here, as fork() would: the image holds a count that is newer
 *                  than the seed, and every request finds itself forked.
 *   OpenSSL's,     nothing to do: they compare the number of the process, which is not the zygote's
 *   libgcrypt's
 *   libc's         rand(), random() and drand48() (EXSLT's math:random(), libmemcached and others
 *                  draw from them): seeded when a process, or a sealed request, first draws and has
 *                  not seeded them; in all modes, because nothing else does. Nothing is to be done
 *                  for those that are the kernel's; image.c leaves their memory alone, and wipes
 *                  memory by whose zeros other libraries see a fork
 *   Net-SNMP's     salts of SNMPv3, drawn when the library starts and counted on: drawn again when
 *   salts          a process, or a sealed request, first uses them; in all modes, because forked
 *                  workers would count alike
 *   libuuid's      for time-based ones: cannot be forgotten, so the image is refused
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "sealed/randomness.h"
#include "ground/override.h"
#include "ground/state.h"

/* ---- handlers of forks ---- */

typedef struct {
    void (*prepare)(void), (*child)(void);
} fork_handler;

static fork_handler *handlers;
static size_t handler_count;

extern void *__dso_handle __attribute__((visibility("hidden"))); /* this program */

/* Called by constructors of libraries too, before main(). */
void randomness_note_fork_handler(void (*prepare)(void), void (*child)(void), const void *library)
{
    fork_handler *more;

    if (library == &__dso_handle || !child) {
        return; /* our own count forks of requests */
    }
    more = realloc(handlers, (handler_count + 1) * sizeof(*handlers));
    if (more) {
        handlers = more;
        handlers[handler_count++] = (fork_handler){prepare, child};
    }
}

/* A library that was unloaded has taken its handlers with it. */
static int is_loaded(void (*function)(void))
{
    Dl_info found;

    return dladdr((void *)function, &found) != 0;
}

static void act_as_forked(void)
{
    for (size_t i = handler_count; i-- > 0;) {
        if (handlers[i].prepare && is_loaded(handlers[i].prepare)) {
            handlers[i].prepare();
        }
    }
    for (size_t i = 0; i < handler_count; i++) {
        if (is_loaded(handlers[i].child)) {
            handlers[i].child();
        }
    }
}

/* ---- what cannot be forgotten ---- */

static const char *culprit;
static zif_handler real_uuid_create;

static ZEND_NAMED_FUNCTION(notice_uuid_create)
{
    enum { OF_TIME = 1 };

    if (ZEND_NUM_ARGS() > 0 && Z_TYPE_P(ZEND_CALL_ARG(execute_data, 1)) == IS_LONG &&
        Z_LVAL_P(ZEND_CALL_ARG(execute_data, 1)) == OF_TIME) {
        culprit = "libuuid has made a time-based UUID at boot (uuid_create()); those of different "
                  "workers could be equal";
    }
    real_uuid_create(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* ---- numbers of libc ---- */

static int is_seeded; /* in this process, and in this sealed request */

void randomness_note_seeded(void)
{
    is_seeded = 1;
}

void randomness_seed(void)
{
    unsigned seeds[2];

    if (is_seeded || getrandom(seeds, sizeof(seeds), 0) != sizeof(seeds)) {
        return;
    }
    srandom(seeds[0]); /* by way of interpose.c, which notes it */
    srand48((long)seeds[1]);
}

static void forget_seed(void)
{
    is_seeded = 0;
}

/* ---- salts of SNMPv3 ---- */

static pid_t salted; /* the process that has drawn them; part of the image */

/* Net-SNMP draws its salts in a callback for the time when its configuration was read, before MIBs
 * are. Reading it again, as agents do, calls it again. */
static void draw_salts(void)
{
    enum { OF_LIBRARY = 0, CONFIGURATION_WAS_READ = 3 };
    int (*call_callbacks)(int, int, void *);

    if (salted == getpid()) {
        return;
    }
    salted = getpid();
    *(void **)&call_callbacks = dlsym(RTLD_DEFAULT, "snmp_call_callbacks");
    if (call_callbacks) {
        call_callbacks(OF_LIBRARY, CONFIGURATION_WAS_READ, NULL);
    }
}

/* By which PHP comes to speak SNMPv3. */
#define SALTED(ROW)                                 \
    ROW(NULL, snmp3_get)                            \
    ROW(NULL, snmp3_getnext)                        \
    ROW(NULL, snmp3_walk)                           \
    ROW(NULL, snmp3_real_walk)                      \
    ROW(NULL, snmp3_set)                            \
    ROW("snmp", setsecurity)

#define DRAW_BEFORE(class, function)                          \
    static zif_handler real_##function;                       \
    static ZEND_NAMED_FUNCTION(draw_before_##function)        \
    {                                                         \
        draw_salts();                                         \
        real_##function(INTERNAL_FUNCTION_PARAM_PASSTHRU);    \
    }

SALTED(DRAW_BEFORE)

/* ---- all together ---- */

void randomness_watch(void)
{
    pthread_atfork(NULL, NULL, forget_seed);
    override_function(NULL, "uuid_create", &real_uuid_create, notice_uuid_create);
#define STAND_BEFORE(class, function) \
    override_function(class, #function, &real_##function, draw_before_##function);
    SALTED(STAND_BEFORE)
}

const char *randomness_culprit(void)
{
    return culprit;
}

void randomness_forget(void)
{
    zend_module_entry *random = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("random"));
    zend_module_entry *gmp = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("gmp"));
    void (*of_sqlite)(int, void *);

    if (random && random->request_startup_func) {
        random->request_startup_func(random->type, random->module_number);
    }
    if (gmp && gmp->request_shutdown_func) {
        gmp->request_shutdown_func(gmp->type, gmp->module_number);
    }
    *(void **)&of_sqlite = dlsym(RTLD_DEFAULT, "sqlite3_randomness");
    if (of_sqlite) {
        of_sqlite(0, NULL);
    }
    salted = 0;
    forget_seed();
    act_as_forked();
}
