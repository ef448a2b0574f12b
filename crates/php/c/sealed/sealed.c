/* Sealed mode: boot once, serve every request from the same image.
 *
 *   zygote:   boot ──► warm-up requests ──► image_take ──► forks workers, for ever
 *   worker:   image_adopt ──► roll back ──► [ wait ──► begin ──► request ──► end ──► put all back ──► roll back ]
 *
 * A worker script's first tokamak_handle_request() is where the image is taken; when the script
 * calls it again, the roll-back brings it back into that first call. Without a worker script the
 * front controller is run as in classic mode, inside a PHP request that began in the zygote.
 * Whichever way a request ends (return, exit, fatal error, time limit), the next thing that happens
 * to this process is a roll-back.
 */
#include <limits.h>
#include <stddef.h>
#include <unistd.h>

#include "sealed/sealed.h"
#include "cycle/request_cycle.h"
#include "cycle/script.h"
#include "cycle/session.h"
#include "ground/backtrace.h"
#include "ground/state.h"
#include "ground/variables.h"
#include "image.h"
#include "process/descriptors.h"
#include "process/descriptors_boot.h"
#include "process/directory.h"
#include "process/ffi.h"
#include "process/process_state.h"
#include "process/program_memory.h"
#include "process/worker_process.h"
#include "sealed/channels.h"
#include "sealed/connections.h"
#include "sealed/dependencies.h"
#include "sealed/heap.h"
#include "sealed/heap_dump.h"
#include "sealed/outdated.h"
#include "sealed/paths.h"
#include "sealed/patterns.h"
#include "sealed/persistent.h"
#include "sealed/randomness.h"
#include "sealed/shutdown.h"
#include "sealed/sqlite.h"
#include "sealed/warm_up.h"

/* Most slots that a queue has. */
enum { MOST_SLOTS = 1 << 16 };

typedef struct {
    uint32_t index, instance;
    uint64_t served;
    /* requests served at the next look at the invariants, and between the last two */
    uint64_t check_at, check_every;
    /* requests served at the next time that it looks for what it could learn, and at the last */
    uint64_t learn_at, looked_at;
    int extensions; /* of the image, for what it has learned */
    lasting_files files;
    uint64_t slots[MOST_SLOTS / 64]; /* of the queue, a bit for each that was used */
    /* for channels.c */
    _Alignas(max_align_t) char rest[];
} lasting;

/* Requests between two looks at the invariants: soon at first, and again when one found something
 * that libc had left. At most so many that what each leaves stays far below the 65530 mappings that
 * a process may have. */
enum { CHECK_SOON = 500, CHECK_LATE = 16000 };

/* A worker learns from its first requests, this many, what several of them compile, and what most
 * of them look up. After 5 it would have seen few of an application's pages; after 500 a worker
 * that is replaced often would never learn. Visitors may ask for other pages later, so it looks
 * again after each 500. It extends the image at most so often, because each time cuts it into more
 * pieces; a tenth would be too few for an application whose pages are asked for one after the
 * other. */
enum { LEARNING_REQUESTS = 50, LOOK_AGAIN = 500, MOST_EXTENSIONS = 32 };

/* In the persistent region; the same address in every process of the site. */
static lasting *life;
static int backtrace_signal;
static const char *script_path;   /* of the worker or boot script; NULL: neither */

/* ---- the end of a request ---- */

static void leave_if_tainted(void)
{
    if (image_taint()) {
        rust_leave(image_taint());
    }
}

/* The answer to a connection's reset is read when memory is back, so that the peer works
 * meanwhile. */
static _Noreturn void roll_back(void)
{
    process_state_look_for_threads();
    channels_restore();
    if (ffi_was_called()) {
        life->check_at = life->served; /* of memory, when it has gone back */
        if (!program_memory_is_whole()) {
            image_note_taint("a request that called C changed the program's memory");
        }
    }
    leave_if_tainted();
    image_roll_back();
}

/* opcache takes the time from the request, which for it began at the boot: it would never look at a
 * file again that it has seen once, and would not keep one that is younger than the image. */
static zend_module_entry *opcache;

void sealed_begin(void)
{
    if (shim.rolls_back && opcache) {
        opcache->request_startup_func(opcache->type, opcache->module_number);
    }
}

void sealed_end(void)
{
    shutdown_request();
    patterns_note();
    if (life->served <= LEARNING_REQUESTS) {
        paths_note();
    }
    roll_back();
}

/* Worker scripts collect garbage after each request. Here the roll-back does, of all that was made,
 * for nothing. */
static int (*collect_cycles)(void);

static int collect_before_the_end(void)
{
    return shim.rolls_back && serving->stage != STAGE_REQUEST ? 0 : collect_cycles();
}

/* ---- taking the image ---- */

/* Objects of the boot are never freed, so that a request which replaces one (a request stack, the
 * warm-up's response) does not take apart what hangs from it, only for the roll-back to put it
 * together again. Not those with a destructor: it runs when the request lets go of them, as
 * everywhere. And only with_connections those that may hold one (PDO), which a request would
 * close. */
static void pin_objects(uint32_t first, int with_connections)
{
    const zend_objects_store *store = &EG(objects_store);

    for (uint32_t i = first; i < store->top; i++) {
        zend_object *object = store->object_buckets[i];
        if (IS_OBJ_VALID(object) && !object->ce->destructor &&
            object->handlers->dtor_obj == zend_objects_destroy_object &&
            (with_connections || object->handlers->free_obj == zend_object_std_dtor)) {
            GC_ADDREF(object);
        }
    }
}

/* The warm-up's superglobals, which each request replaces, become constants, as opcache's are: who
 * replaces or copies one of those counts no references, and writes to no page of the image. */
static void pin_superglobals(void)
{
    zval *global;

    for (int i = 0; i < NUM_TRACK_VARS; i++) {
        zval *superglobal = &PG(http_globals)[i];
        if (!Z_REFCOUNTED_P(superglobal)) {
            continue;
        }
        Z_ADDREF_P(superglobal); /* who already has it goes on counting */
        GC_ADD_FLAGS(Z_ARR_P(superglobal), GC_IMMUTABLE | GC_NOT_COLLECTABLE);
        ZEND_HASH_FOREACH_VAL(&EG(symbol_table), global) {
            if (Z_TYPE_P(global) == IS_ARRAY && Z_ARR_P(global) == Z_ARR_P(superglobal)) {
                Z_TYPE_INFO_P(global) = IS_ARRAY;
            }
        } ZEND_HASH_FOREACH_END();
        Z_TYPE_INFO_P(superglobal) = IS_ARRAY;
    }
}

static void prepare(void)
{
    zend_objects_store *store = &EG(objects_store);

    zend_unset_timeout();
    request_discard_output(); /* or each request would print what the boot has left in a buffer */
    gc_enable(gc_enabled());
    zend_gc_collect_cycles();
    variables_learn();
    persistent_take_out();
    persistent_warn(descriptors_close_sockets());
    shutdown_learn_writers();
    shutdown_flush_streams();
    outdated_learn_files();
    shutdown_draw_line();
    pin_objects(1, 0);
    sqlite_learn(1);
    pin_superglobals();
    if (store->size < store->top + 4096) {
        store->size = store->top + 4096;
        store->object_buckets =
            erealloc(store->object_buckets, store->size * sizeof(zend_object *));
    }
    randomness_forget();
    opcache = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("zend opcache"));
    if (opcache && !opcache->request_startup_func) {
        opcache = NULL;
    }
    backtrace_init_signals(backtrace_signal);
    collect_cycles = gc_collect_cycles;
    gc_collect_cycles = collect_before_the_end;
    worker_process_seal();
    if (opcache && opcache->post_deactivate_func) {
        /* Requests of the boot have ended. Otherwise each request would find opcache's account of
         * its user still open: a system call and a message that is not logged. */
        opcache->post_deactivate_func();
    }
    channels_learn(life->rest);
    descriptors_boot_learn(script_path);
    heap_plug();
    shim.lasting = &life->files;
    shim.rolls_back = 1;
}

static void check_image(uint64_t strays)
{
    image_stats after;

    image_check(0);
    channels_check(life->check_every == 0);
    image_get_stats(&after);
    if (after.strays != strays || life->check_every < CHECK_SOON) {
        life->check_every = CHECK_SOON;
    } else if (life->check_every < CHECK_LATE) {
        life->check_every *= 2;
    }
    life->check_at = life->served + life->check_every;
}

/* Opens the connections that the boot wants kept. What that did to memory becomes this worker's own
 * part of the image, or is undone. */
static void keep_connections(void)
{
    uint32_t objects;
    int first;

    if (!connections_are_wanted()) {
        return;
    }
    if (connections_open()) {
        persistent_hand_over();
        collect_cycles();
        objects = shutdown_draw_line();
        pin_objects(objects, 1);
        sqlite_learn(objects);
        randomness_forget();
        heap_plug();
        first = descriptors_keep(0);
        if (image_extend() == 0) {
            connections_keep();
        } else {
            descriptors_keep(first);
            connections_forget();
        }
    }
    roll_back();
}

/* In a process just forked. Rust has returned: no frame of it is among those that the roll-back
 * leaves behind. */
static _Noreturn void begin_worker(shim_worker_id id)
{
    if (worker_process_begin_copy() != 0 || image_adopt(id.page_map) != 0) {
        rust_fail("the image could not be made this worker's own");
    }
    *life = (lasting){.index = id.index,
                      .instance = id.instance,
                      .check_at = 1,
                      .learn_at = LEARNING_REQUESTS};
    channels_begin();
    image_roll_back();
}

int shim_is_new_slot(uint32_t slot)
{
    uint64_t bit = 1ull << slot % 64;

    if (!shim.rolls_back || slot >= MOST_SLOTS || life->slots[slot / 64] & bit) {
        return 0;
    }
    life->slots[slot / 64] |= bit;
    return 1;
}

/* Not where connections are kept: what is said to them between two requests is in no image. Not for
 * the seal report either, which looks for whatever differs from request to request. */
static void learn(void)
{
    uint64_t requests = life->served - life->looked_at;
    int is_first = life->looked_at == 0;

    if (life->served < life->learn_at || connections_may_be_kept() || shim.config->report) {
        return;
    }
    life->looked_at = life->served;
    if (patterns_compile(requests) + (is_first ? paths_learn() : 0) > 0) {
        heap_give_back(); /* what compiling took: the image's own chunks are full, and stay so */
        image_extend();   /* on failure without them, or with a taint */
        life->extensions++;
    }
    life->learn_at = life->extensions < MOST_EXTENSIONS ? life->served + LOOK_AGAIN : UINT64_MAX;
    roll_back();
}

static void look_at_paths(void)
{
    if (!paths_are_due()) {
        return;
    }
    if (!paths_hold()) {
        rust_leave("a path that most requests use leads elsewhere now");
    }
    roll_back();
}

/* Request after request comes out of here, each with the memory of the first. */
static const shim_request *take_and_wait(void)
{
    const shim_request *request;
    const char *refusal;
    image_stats stats;

    if (randomness_culprit()) {
        rust_refuse_image(randomness_culprit());
    }
    prepare();
    if (ffi_is_watched()) {
        program_memory_learn();
    }
    refusal = channels_refusal();
    switch (refusal ? IMAGE_REFUSED : image_take()) {
    case IMAGE_TAKEN:
        shim.rolls_back = 0;
        begin_worker(rust_fork_workers());
    case IMAGE_REFUSED:
        rust_refuse_image(refusal ? refusal : image_reason());
    case IMAGE_RESTORED:
        break;
    }
    image_get_stats(&stats);
    if (life->served >= life->check_at) {
        check_image(stats.strays);
        leave_if_tainted();
    }
    rust_resume(life->index, life->instance, life->served, stats.last_ns,
                (uint32_t)stats.dirty_pages);
    if (connections_await() != 0) {
        rust_leave(CONNECTIONS_NOT_RESET);
    }
    keep_connections();
    learn();
    look_at_paths();
    request = rust_next();
    if (!request) {
        rust_leave(NULL);
    }
    if (heap_dump_answered(request)) {
        roll_back();
    }
    life->served++;
    paths_forget_due(); /* it may have waited for long */
    return request;
}

const shim_request *sealed_next(void)
{
    const shim_request *request = rust_warm();

    return request ? request : take_and_wait();
}

/* ---- without a worker script ---- */

static void serve_scripts(void)
{
    const shim_request *request;

    /* The boot's own shutdown functions belong to no request, and the boot never ends. */
    BG(user_shutdown_function_names) = NULL;
    session_end();
    warm_up_scripts();
    if (shim.config->root) {
        char directory[PATH_MAX];
        int len = snprintf(directory, sizeof(directory), "%s/", shim.config->root);
        directory_enter_that_of(directory, len < PATH_MAX ? (size_t)len : 0);
    }
    request = take_and_wait();
    zend_first_try {
        request_begin(request);
        script_run(request);
    } zend_end_try();
    sealed_end();
}

shim_exit sealed_run(const mode *sealed, const char *script, int is_boot, int signal_number,
                     int page_map, int line)
{
    volatile int ended = 0;

    backtrace_signal = signal_number;
    script_path = script;

    life = image_open(sizeof(lasting) + channels_size(), page_map);
    if (!life) {
        return SHIM_NEVER_LOOPED;
    }
    descriptors_add_own(page_map);
    descriptors_add_own(line);
    image_reuse_for((const void *)_emalloc);
    shutdown_learn_modules();
    ffi_watch();
    shim.sealed = 1;
    shim.mode = sealed;
    dependencies_begin();
    if (script && !is_boot) {
        return shim_run_script(script);
    }
    serving->request = NULL;
    serving->stage = STAGE_BOOT;
    zend_first_try {
        SG(server_context) = NULL;
        SG(request_info).path_translated = (char *)script;
        SG(request_info).no_headers = 1;
        SG(sapi_headers).http_response_code = 200;
        if (php_request_startup() == SUCCESS) {
            SG(request_info).no_headers = 1;
            if (script) {
                script_execute(script, strlen(script));
            }
            ended = !CG(unclean_shutdown) && EG(exit_status) != 255;
        }
    } zend_end_try();
    if (ended) {
        serve_scripts();
    }
    zend_first_try {
        php_request_shutdown(NULL);
    } zend_end_try();
    serving->stage = STAGE_OUTSIDE;
    shim.sealed = 0;
    return SHIM_NEVER_LOOPED;
}
