/* Worker mode: one script, many requests.
 *
 * The script runs inside one php_request_startup/shutdown; each request is a small cycle within it
 * (request_cycle.c):
 *
 *   boot ──► handle_request ──► [reset] wait ──► begin ──► handler ──► end ──► (script's own code) ──┐
 *                  ▲                                                                                 │
 *                  └─────────────────────────────────────────────────────────────────────────────────┘
 *
 * Everything is reset when the script asks for the next request, not when the handler returns: what
 * the script does between the two (Symfony's kernel.terminate) still sees its state, cannot leak
 * either, and the client has its response before the cleaning begins.
 *
 * exit() and an uncaught exception end the handler, and the loop goes on. A fatal error leaves the
 * engine in a state that nobody vouches for: the response is finished, the script ended, and Rust
 * runs it again.
 */
#include <time.h>

#include "worker.h"
#include "async/async.h"
#include "classic.h"
#include "lifecycle.h"
#include "out_of_memory.h"
#include "request_cycle.h"
#include "reset.h"
#include "sapi.h"
#include "sealed/heap_dump.h"
#include "sealed/outdated.h"
#include "sealed/sealed.h"
#include "session.h"
#include "state.h"
#include "syscall_cache.h"
#include "values.h"

/* The request's functions go behind those of the boot: the script ends with both. */
static void join_shutdown_functions(void)
{
    HashTable *of_request = BG(user_shutdown_function_names);
    zval *item;

    if (!shim.script.shutdown_functions) {
        return;
    }
    if (of_request) {
        ZEND_HASH_FOREACH_VAL(of_request, item) {
            zend_hash_next_index_insert_mem(shim.script.shutdown_functions, Z_PTR_P(item),
                                            sizeof(php_shutdown_function_entry));
            efree(Z_PTR_P(item)); /* the entry's references have moved */
        } ZEND_HASH_FOREACH_END();
        of_request->pDestructor = NULL;
        zend_hash_destroy(of_request);
        FREE_HASHTABLE(of_request);
    }
    BG(user_shutdown_function_names) = shim.script.shutdown_functions;
    shim.script.shutdown_functions = NULL;
}

/* Whether opcache waits for its users to go: its memory is full, or opcache_reset() was called. A
 * worker script uses it as long as it runs, and after opcache.force_restart_timeout opcache kills
 * who still does, with the request in his hands. So the script ends, and is run again, without the
 * cache until all have let go; asked once a second. */
int worker_cache_restarts(void)
{
    static time_t asked;
    struct timespec now;
    zend_function *status;
    char *restricted;
    zval no_scripts, answer, *pending;
    int restarting;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (now.tv_sec == asked || !syscall_cache_uses_opcache()) {
        return 0;
    }
    asked = now.tv_sec;
    status = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("opcache_get_status"));
    restricted = zend_ini_string("opcache.restrict_api", sizeof("opcache.restrict_api") - 1, 0);
    if (!status || (restricted && *restricted)) {
        return 0;
    }
    ZVAL_FALSE(&no_scripts);
    ZVAL_UNDEF(&answer);
    zend_call_known_function(status, NULL, NULL, &answer, 1, &no_scripts, NULL);
    pending = Z_TYPE(answer) == IS_ARRAY
                  ? zend_hash_str_find(Z_ARR(answer), ZEND_STRL("restart_pending"))
                  : NULL;
    restarting = pending && zend_is_true(pending);
    zval_ptr_dtor(&answer);
    return restarting;
}

bool worker_handle(zend_fcall_info *fci, zend_fcall_info_cache *fcc, zval *return_value)
{
    const shim_request *request;
    zval result;

    (void)return_value;
    if (shim.script.is_over) {
        zend_release_fcall_info_cache(fcc);
        return false;
    }
    if (sealed_is_worker()) {
        sealed_end();
    }
    if (shim.script.loops) {
        /* Functions registered since the response was complete. */
        if (!request_run_shutdown_functions()) {
            zend_bailout();
        }
        values_undo();
        reset_restore();
        zend_set_memory_limit(PG(memory_limit));
    } else {
        shim.script.loops = 1;
        shim.script.shutdown_functions = BG(user_shutdown_function_names);
        BG(user_shutdown_function_names) = NULL;
        session_end();
        reset_learn();
        outdated_note_booted();
    }
    zend_unset_timeout();
    sapi_leave_copy();
    if (!shim.sealed && worker_cache_restarts()) {
        zend_release_fcall_info_cache(fcc);
        return false;
    }
    if (shim.config->concurrency > 0) {
        shim.script.left = async_serve(fci, fcc);
        zend_release_fcall_info_cache(fcc);
        return false;
    }
    request = shim.sealed ? sealed_next() : heap_dump_next();
    if (!request) {
        shim.script.left = 1;
        zend_release_fcall_info_cache(fcc);
        return false;
    }
    request_begin(request);
    ZVAL_UNDEF(&result);
    fci->retval = &result;
    zend_call_function(fci, fcc);
    request_report_exception();
    zval_ptr_dtor(&result);
    if (COMPAT_OUT_OF_MEMORY() || !request_end()) {
        zend_bailout();
    }
    return true;
}

static void run(const char *script)
{
    SG(request_info).no_headers = 1;
    if (shim.config->concurrency == 0) {
        /* A client that goes away must not end the script, which serves others too. In async mode
         * it ends its request: see cancellation.c. */
        zend_string *name = zend_string_init(ZEND_STRL("ignore_user_abort"), 0);
        zend_alter_ini_entry_chars(name, "1", 1, ZEND_INI_USER, ZEND_INI_STAGE_RUNTIME);
        zend_string_release(name);
    }

    lifecycle_execute(script, strlen(script));
}

shim_exit shim_run_script(const char *script)
{
    volatile int crashed = 0;

    shim.script = (script_state){0};
    shim.worker_script = 1;
    classic_notice_calls(); /* C that is called may change the environment */
    serving->request = NULL;
    serving->stage = STAGE_BOOT;
    zend_first_try {
        SG(server_context) = NULL;
        SG(request_info).path_translated = (char *)script;
        SG(sapi_headers).http_response_code = 200;
        if (php_request_startup() == SUCCESS) {
            run(script);
        } else {
            crashed = 1;
        }
    } zend_catch {
        crashed = 1;
    } zend_end_try();
    if (sealed_is_worker()) {
        sealed_end();
    }
    crashed |= CG(unclean_shutdown) || EG(exit_status) == 255;

    zend_first_try {
        join_shutdown_functions();
        values_undo();
        reset_forget();
    } zend_end_try();
    zend_first_try {
        php_request_shutdown(NULL);
    } zend_catch {
        crashed = 1;
    } zend_end_try();
    out_of_memory_settle();
    sapi_leave_copy();
    sapi_end_response();
    sapi_forget_request();
    serving->joined_cookie = NULL;
    serving->stage = STAGE_OUTSIDE;

    if (!shim.script.loops) {
        return SHIM_NEVER_LOOPED;
    }
    return shim.script.left ? SHIM_LEFT : crashed ? SHIM_CRASHED : SHIM_ENDED;
}
