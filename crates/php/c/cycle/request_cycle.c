/* One request inside of a worker script: what PHP does around a script, done around a handler.
 *
 * The script runs inside one php_request_startup/shutdown. Of what these do, a request of its own
 * needs what concerns its input, its response, its session and its shutdown functions; modules are
 * notified of neither.
 */
#include "cycle/request_cycle.h"
#include "cycle/reset.h"
#include "cycle/session.h"
#include "cycle/superglobals.h"
#include "ground/gateway.h"
#include "ground/sapi.h"
#include "ground/values.h"

/* Where the worker script is, while something runs outside of all functions, as PHP runs it after a
 * script. So a message has no line of the worker script, and an exit() or an exception that nothing
 * catches ends this part alone. */
typedef struct {
    zend_execute_data *frame;
    const zval *top;
    bool was_unclean;
} saved_frame;

static saved_frame leave_functions(void)
{
    const saved_frame saved = {EG(current_execute_data), EG(vm_stack_top), CG(unclean_shutdown)};

    EG(current_execute_data) = NULL;
    return saved;
}

/* False: something was left in the middle, by a fatal error, and the engine cannot be relied on. */
static bool enter_functions(const saved_frame *saved)
{
    /* exit() and exceptions jump, too, but out of functions that have ended. */
    const bool whole = EG(vm_stack_top) == saved->top && !COMPAT_OUT_OF_MEMORY();

    EG(current_execute_data) = saved->frame;
    if (whole) {
        CG(unclean_shutdown) = saved->was_unclean;
    }
    return whole;
}

/* Runs a part of PHP's request shutdown as PHP does. */
static bool run_outside(void (*part)(void))
{
    const saved_frame saved = leave_functions();

    EG(flags) |= EG_FLAGS_IN_SHUTDOWN;
    zend_try {
        part();
    } zend_end_try();
    EG(flags) &= ~EG_FLAGS_IN_SHUTDOWN;
    return enter_functions(&saved);
}

static void report_exception(void)
{
    if (!zend_is_unwind_exit(EG(exception)) && Z_TYPE(EG(user_exception_handler)) != IS_UNDEF) {
        zend_user_exception_handler();
    }
    if (EG(exception)) {
        /* Silent for exit(). */
        zend_exception_error(EG(exception), E_ERROR);
    }
}

/* Inside of a function PHP would drop what an exception handler throws. Outside of all, that is an
 * error, and PHP jumps: out of its own function, which was to release the first exception. */
void request_report_exception(void)
{
    zend_object *exception = EG(exception);
    volatile bool has_returned = false;
    saved_frame saved;

    if (!exception) {
        return;
    }
    saved = leave_functions();
    zend_try {
        report_exception();
        has_returned = true;
    } zend_end_try();
    if (!enter_functions(&saved)) {
        zend_bailout();
    }
    if (!has_returned) {
        OBJ_RELEASE(exception);
    }
}

bool request_run_shutdown_functions(void)
{
    bool whole = true;

    if (BG(user_shutdown_function_names)) {
        whole = run_outside(php_call_shutdown_functions);
        php_free_shutdown_functions();
    }
    return whole;
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
static void notify_output_handlers(bool of_a_start)
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

void request_discard_output(void)
{
    php_output_end_all();
    php_output_deactivate();
    php_output_activate();
    notify_output_handlers(false);
    for (size_t i = 0; i < HANDLERS; i++) {
        zend_module_entry *module = *handlers[i].module;

        if (module && is_off(handlers[i].setting)) {
            module->request_startup_func(module->type, module->module_number);
            handlers[i].was_off = true;
        }
    }
}

/* The first header, and one that is right: sapi_add_header() would look for others of its name, and
 * through its characters. */
static void put_version_header(void)
{
    const size_t len = sizeof(SAPI_PHP_VERSION_HEADER) - 1;
    sapi_header_struct header = {estrndup(SAPI_PHP_VERSION_HEADER, len), len};

    zend_llist_add_element(&SG(sapi_headers).headers, &header);
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
    shim.mode->begin();
    if (PG(max_input_time) == -1) {
        zend_set_timeout(EG(timeout_seconds), 1);
    } else {
        zend_set_timeout(PG(max_input_time), 1);
    }
    if (PG(expose_php) && !SG(headers_sent)) {
        put_version_header();
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

/* PHP imports a request before a script runs. Here the script is there already, and what PHP says
 * of a request that it cannot read in full (too many fields, a body that is too long) must not end
 * in the script's error handler, which may throw: the application would not be asked. */
typedef struct {
    zval error_handler;
    zend_string *filename;
    zend_long line;
} import_stage;

static zend_long level_of(const zend_string *setting)
{
    return setting ? ZEND_STRTOL(ZSTR_VAL(setting), NULL, 10) : E_ALL;
}

/* Settings of the request, and what reads its body, see a request whose modules have not begun yet:
 * they judge values otherwise, and PHP's messages say so. What is reported is what php.ini says,
 * and no line of the script has to do with it. */
static import_stage begin_import(void)
{
    const zend_ini_entry *reporting =
        zend_hash_find_ptr(EG(ini_directives), ZSTR_KNOWN(ZEND_STR_ERROR_REPORTING));
    import_stage of_script = {.filename = EG(filename_override), .line = EG(lineno_override)};

    ZVAL_COPY_VALUE(&of_script.error_handler, &EG(user_error_handler));
    ZVAL_UNDEF(&EG(user_error_handler));
    if (!session_is_in_script()) { /* whose files are looked for beside the one that runs */
        EG(filename_override) = ZSTR_KNOWN(ZEND_STR_UNKNOWN_CAPITALIZED);
        EG(lineno_override) = 0;
    }
    if (reporting && reporting->modified) {
        EG(error_reporting) = (int)level_of(reporting->orig_value);
    }
    PG(modules_activated) = 0;
    PG(during_request_startup) = true;
    return of_script;
}

static void end_import(const import_stage *of_script)
{
    const zend_ini_entry *reporting =
        zend_hash_find_ptr(EG(ini_directives), ZSTR_KNOWN(ZEND_STR_ERROR_REPORTING));

    PG(modules_activated) = 1;
    PG(during_request_startup) = false;
    if (reporting && reporting->modified) {
        EG(error_reporting) = (int)level_of(reporting->value);
    }
    EG(filename_override) = of_script->filename;
    EG(lineno_override) = of_script->line;
    ZVAL_COPY_VALUE(&EG(user_error_handler), &of_script->error_handler);
}

void request_begin(const shim_request *request)
{
    import_stage of_script;

    php_output_end_all();
    php_output_deactivate();

    serving->stage = STAGE_REQUEST;
    notify_output_handlers(false); /* the request before has ended; this one's handlers come next */
    of_script = begin_import();
    zend_try {
        start_request(request);
        notify_output_handlers(true);
        session_begin();
    } zend_catch {
        end_import(&of_script);
        zend_bailout();
    } zend_end_try();
    end_import(&of_script);
    if (PG(max_input_time) != -1) {
        zend_set_timeout(INI_INT("max_execution_time"), 0);
    }
}

bool request_end(void)
{
    bool whole;

    gateway_note_failure();
    whole = request_run_shutdown_functions();
    if (serving->context) {
        whole &= run_outside(shim.mode->end_values);
    }
    if (serving->failed) {
        whole &= run_outside(shim.mode->end_coroutines);
    }
    whole &= run_outside(session_destruct_handler);
    whole &= run_outside(php_output_end_all);
    zend_unset_timeout();
    shim.mode->look_at_session();
    whole &= run_outside(session_end);
    if (serving->context) {
        /* A handler of sessions, or of output, has set values again. */
        whole &= run_outside(shim.mode->end_values);
    }
    sapi_leave_copy();
    php_output_deactivate();
    serving->memory = zend_memory_usage(1);
    sapi_end_response();
    if (shim.rolls_back) {
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
