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
 * engine in an unknown state: the response is finished, the script ended, and Rust
 * runs it again.
 */
#include "cycle/worker_script.h"
#include "cycle/request_cycle.h"
#include "cycle/reset.h"
#include "cycle/script.h"
#include "cycle/session.h"
#include "ground/mode.h"
#include "ground/out_of_memory.h"
#include "ground/sapi.h"
#include "ground/state.h"
#include "ground/values.h"
#include "process/ffi.h"
#include "process/opcache.h"

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

/* While the settings that came with the request are there, as for any script. */
static void run_shutdown_functions(void)
{
    join_shutdown_functions();
    EG(current_execute_data) = NULL;
    EG(flags) |= EG_FLAGS_IN_SHUTDOWN;
    if (PG(modules_activated)) {
        php_call_shutdown_functions();
        php_free_shutdown_functions();
    }
}

bool worker_script_handle(zend_fcall_info *fci, zend_fcall_info_cache *fcc, zval *return_value)
{
    const shim_request *request;
    zval result;

    (void)return_value;
    if (shim.script.is_over) {
        zend_release_fcall_info_cache(fcc);
        return false;
    }
    if (shim.rolls_back) {
        shim.mode->end();
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
        shim.mode->booted();
    }
    zend_unset_timeout();
    sapi_leave_copy();
    if (!shim.mode->keeps_code && opcache_restarts()) {
        zend_release_fcall_info_cache(fcc);
        return false;
    }
    if (shim.mode->serve) {
        shim.script.left = shim.mode->serve(fci, fcc);
        zend_release_fcall_info_cache(fcc);
        return false;
    }
    request = shim.mode->next();
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
    if (!shim.mode->is_concurrent) {
        /* A client that goes away must not end the script, which serves others too. In async mode
         * it ends its request: see cancellation.c. */
        zend_string *name = zend_string_init(ZEND_STRL("ignore_user_abort"), 0);
        zend_alter_ini_entry_chars(name, "1", 1, ZEND_INI_USER, ZEND_INI_STAGE_RUNTIME);
        zend_string_release(name);
    }

    script_execute(script, strlen(script));
}

shim_exit shim_run_script(const char *script)
{
    volatile int crashed = 0;

    shim.script = (script_state){0};
    shim.worker_script = 1;
    ffi_watch(); /* C that is called may change the environment */
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
    if (shim.rolls_back) {
        shim.mode->end();
    }
    crashed |= CG(unclean_shutdown) || EG(exit_status) == 255;

    zend_first_try {
        run_shutdown_functions();
    } zend_end_try();
    zend_first_try {
        values_undo();
        reset_forget();
    } zend_end_try();
    zend_first_try {
        php_request_shutdown(NULL);
    } zend_catch {
        crashed = 1;
    } zend_end_try();
    out_of_memory_reset();
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
