/* Worker mode: one script, many requests.
 *
 * The script runs inside one php_request_startup/shutdown; each request is a small cycle within it:
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
#include "classic.h"
#include "gateway.h"
#include "heap_dump.h"
#include "lifecycle.h"
#include "reset.h"
#include "sapi.h"
#include "sealed.h"
#include "session.h"
#include "state.h"
#include "superglobals.h"
#include "syscall_cache.h"
#include "values.h"
#include "warm_up.h"

static void report_exception(void)
{
    if (EG(exception) && !zend_is_unwind_exit(EG(exception)) &&
        Z_TYPE(EG(user_exception_handler)) != IS_UNDEF) {
        zend_user_exception_handler();
    }
    if (EG(exception)) {
        /* Silent for exit(). */
        zend_exception_error(EG(exception), E_ERROR);
    }
}

/* Runs a part of PHP's request shutdown as PHP does: outside of all functions. So a message has no
 * line of the worker script, and an exit() or an exception that nothing catches ends this part
 * alone. False: something was left in the middle, by a fatal error, and the engine cannot be relied
 * on. */
static bool run_outside(void (*part)(void))
{
    zend_execute_data *frame = EG(current_execute_data);
    const zval *top = EG(vm_stack_top);
    bool was_unclean = CG(unclean_shutdown), whole;

    EG(current_execute_data) = NULL;
    EG(flags) |= EG_FLAGS_IN_SHUTDOWN;
    zend_try {
        part();
    } zend_end_try();
    EG(flags) &= ~EG_FLAGS_IN_SHUTDOWN;
    EG(current_execute_data) = frame;
    /* exit() and exceptions jump, too, but out of functions that have ended. */
    whole = EG(vm_stack_top) == top && !COMPAT_OUT_OF_MEMORY();
    if (whole) {
        CG(unclean_shutdown) = was_unclean;
    }
    return whole;
}

static bool run_shutdown_functions(void)
{
    bool whole = run_outside(php_call_shutdown_functions);

    php_free_shutdown_functions();
    return whole;
}

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

/* No request: no headers to send, output goes to the log. */
static void enter_boot_stage(void)
{
    serving->stage = STAGE_BOOT;
    php_output_activate();
    SG(headers_sent) = 0;
    SG(request_info).no_headers = 1;
}

/* Extensions that put an output handler of their own around each response, if a setting says so. */
static struct {
    zend_module_entry **const module;
    const char *const setting;
    bool was_off; /* when the image was taken: its state is that of a request without the handler */
} handlers[] = {{&shim.modules.zlib, "zlib.output_compression", false},
                {&shim.modules.tidy, "tidy.clean_output", false}};

enum { HANDLERS = sizeof(handlers) / sizeof(*handlers) };

static bool is_off(const char *setting)
{
    zend_string *name = zend_string_init(setting, strlen(setting), 0);
    zend_string *value = zend_ini_get_value(name);

    zend_string_efree(name);
    return !value || !zend_ini_parse_bool(value);
}

/* They hear of a request's start, or of its end: then they forget the handler. Not in a sealed
 * worker where they would do nothing but write to pages of the image. */
static void tell_output_handlers(bool of_a_start)
{
    for (size_t i = 0; i < HANDLERS; i++) {
        zend_module_entry *module = *handlers[i].module;

        if (!module || (handlers[i].was_off && is_off(handlers[i].setting))) {
            continue;
        }
        if (of_a_start) {
            module->request_startup_func(module->type, module->module_number);
        } else {
            module->request_shutdown_func(module->type, module->module_number);
        }
    }
}

/* For an image: no output of the boot, and nothing that a request would have to tidy away. */
void worker_settle_output(void)
{
    php_output_end_all();
    php_output_deactivate();
    php_output_activate();
    tell_output_handlers(false);
    for (size_t i = 0; i < HANDLERS; i++) {
        zend_module_entry *module = *handlers[i].module;

        if (module && is_off(handlers[i].setting)) {
            module->request_startup_func(module->type, module->module_number);
            handlers[i].was_off = true;
        }
    }
}

/* As php_request_startup(), inside of a script. May jump. */
static void start_request(const shim_request *request)
{
    sapi_take_request(request);
    values_apply(request);
    PG(header_is_being_sent) = 0;
    PG(connection_status) = PHP_CONNECTION_NORMAL;
    EG(exit_status) = 0;
    php_output_activate();
    sapi_activate();
    values_guard_paths();
    sealed_begin();
    if (PG(max_input_time) == -1) {
        zend_set_timeout(EG(timeout_seconds), 1);
    } else {
        zend_set_timeout(PG(max_input_time), 1);
    }
    if (PG(expose_php) && !SG(headers_sent)) {
        sapi_add_header(SAPI_PHP_VERSION_HEADER, sizeof(SAPI_PHP_VERSION_HEADER) - 1, 1);
    }
    if (PG(output_handler) && PG(output_handler)[0]) {
        zval handler;
        ZVAL_STRING(&handler, PG(output_handler));
        php_output_start_user(&handler, 0, PHP_OUTPUT_HANDLER_STDFLAGS);
        zval_ptr_dtor(&handler);
    } else if (PG(output_buffering)) {
        php_output_start_user(NULL, PG(output_buffering) > 1 ? PG(output_buffering) : 0,
                              PHP_OUTPUT_HANDLER_STDFLAGS);
    } else if (PG(implicit_flush)) {
        php_output_set_implicit_flush(1);
    }
    superglobals_renew();
}

/* Settings of the request, and what reads its body, see a request whose modules have not begun yet:
 * they judge values otherwise, and PHP's messages say so. */
static void before_modules(int is_before)
{
    PG(modules_activated) = !is_before;
    PG(during_request_startup) = is_before;
}

void worker_begin(const shim_request *request)
{
    php_output_end_all();
    php_output_deactivate();

    serving->stage = STAGE_REQUEST;
    tell_output_handlers(false); /* the request before has ended; this one's handlers come next */
    before_modules(1);
    zend_try {
        start_request(request);
    } zend_catch {
        before_modules(0);
        zend_bailout();
    } zend_end_try();
    before_modules(0);
    tell_output_handlers(true);
    session_begin();
    if (PG(max_input_time) != -1) {
        zend_set_timeout(INI_INT("max_execution_time"), 0);
    }
}

/* False: a fatal error has interrupted the end, too. */
static bool end(void)
{
    bool whole;

    gateway_note_failure();
    whole = run_shutdown_functions();
    whole &= run_outside(php_output_end_all);
    zend_unset_timeout();
    warm_up_look_at_session();
    whole &= run_outside(session_end);
    sapi_leave_copy();
    php_output_deactivate();
    serving->memory = zend_memory_usage(1);
    sapi_end_response();
    if (sealed_is_worker()) {
        enter_boot_stage();
        return whole; /* the rest goes with the roll-back */
    }

    reset_close_streams();
    sapi_deactivate();
    if (serving->joined_cookie) {
        efree(serving->joined_cookie);
        serving->joined_cookie = NULL;
    }
    sapi_forget_request();
    PG(connection_status) = PHP_CONNECTION_NORMAL;
    EG(exit_status) = 0;
    enter_boot_stage();
    return whole;
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
    if (sealed_is_worker()) {
        sealed_end();
    }
    if (shim.script.loops) {
        /* Functions registered since the response was complete. */
        if (!run_shutdown_functions()) {
            zend_bailout();
        }
        values_undo();
        reset_restore();
    } else {
        shim.script.loops = 1;
        shim.script.shutdown_functions = BG(user_shutdown_function_names);
        BG(user_shutdown_function_names) = NULL;
        session_end();
        reset_learn();
    }
    zend_unset_timeout();
    sapi_leave_copy();
    if (!shim.sealed && worker_cache_restarts()) {
        zend_release_fcall_info_cache(fcc);
        return false;
    }
    request = shim.sealed ? sealed_next() : heap_dump_next();
    if (!request) {
        shim.script.left = 1;
        zend_release_fcall_info_cache(fcc);
        return false;
    }
    worker_begin(request);
    ZVAL_UNDEF(&result);
    fci->retval = &result;
    zend_call_function(fci, fcc);
    report_exception();
    zval_ptr_dtor(&result);
    if (COMPAT_OUT_OF_MEMORY() || !end()) {
        zend_bailout();
    }
    return true;
}

static void run(const char *script)
{
    SG(request_info).no_headers = 1;
    /* A client that goes away must not end the script, which serves others too. */
    zend_string *name = zend_string_init(ZEND_STRL("ignore_user_abort"), 0);
    zend_alter_ini_entry_chars(name, "1", 1, ZEND_INI_USER, ZEND_INI_STAGE_RUNTIME);
    zend_string_release(name);

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
