/* Module start-up and the classic request: everything that php-fpm does around a script, without a
 * socket. */
#include <sys/syscall.h>
#include <unistd.h>

#include "async/cancellation.h"
#include "async/fatal_errors.h"
#include "async/fibers.h"
#include "async/in_use.h"
#include "async/long_turns.h"
#include "async/own_state.h"
#include "classic/classic.h"
#include "cycle/script.h"
#include "cycle/session.h"
#include "ground/backtrace.h"
#include "ground/calls.h"
#include "ground/default_link.h"
#include "ground/encodings.h"
#include "ground/ini_files.h"
#include "ground/out_of_memory.h"
#include "ground/sapi.h"
#include "ground/state.h"
#include "ground/values.h"
#include "process/descriptors.h"
#include "process/directory.h"
#include "process/opcache.h"
#include "process/sockets.h"
#include "process/worker_process.h"
#include "sealed/boot_reads.h"
#include "sealed/connections.h"
#include "sealed/dependencies.h"
#include "sealed/randomness.h"
#include "top/functions.h"
#include "top/modes.h"

/* Called once, because each look-up is one in a hash table. */
static void find_modules(known_modules *modules)
{
    modules->date = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("date"));
    modules->filter = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("filter"));
    modules->libxml = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("libxml"));
    modules->mbstring = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("mbstring"));
    modules->tidy = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("tidy"));
    modules->zlib = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("zlib"));
}

/* Sets PHP_BINARY to the path of this program, as php-fpm does. It is not set by
 * `executable_location`, because PHP would then look for a php.ini beside the program. */
static void name_program(void)
{
    zend_constant *name = zend_hash_str_find_ptr(EG(zend_constants), ZEND_STRL("PHP_BINARY"));
    char path[MAXPATHLEN];
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);

    if (!name || len <= 0) {
        return;
    }
    /* What the kernel adds after an upgrade, when another file has this name. */
    static const char deleted[] = " (deleted)";
    size_t rest = (size_t)len - MIN((size_t)len, sizeof(deleted) - 1);
    if (!memcmp(path + rest, deleted, (size_t)len - rest)) {
        len = (ssize_t)rest;
    }
    path[len] = 0;
    PG(php_binary) = pestrdup(path, 1);
    ZVAL_STR(&name->value, zend_string_init(path, (size_t)len, 1));
}

int shim_start(const shim_config *config)
{
    if (config->version != SHIM_VERSION) {
        return 1;
    }
    shim.config = config;
    shim.mode = config->concurrency > 0 ? &mode_async : &mode_plain;
    dependencies_note_start();
    descriptors_note_own();
    sapi_startup(&shim_sapi);
    shim_sapi.ini_entries = (char *)config->ini;
    /* The current directory of a server is arbitrary, so a php.ini that lies there is ignored. */
    shim_sapi.php_ini_ignore_cwd = 1;
    shim_sapi.php_ini_ignore = config->no_ini;
    shim_sapi.php_ini_path_override = (char *)config->ini_file;
    shim_sapi.ini_defaults = ini_files_choose;
    if (php_module_startup(&shim_sapi, &shim_module) == FAILURE) {
        return 1;
    }
    ini_files_chosen();
    find_modules(&shim.modules);
    shim.filter_default = zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL("filter.default"));
    for (size_t i = 0; i < config->locked_count; i++) {
        zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), config->locked[i],
                                                       strlen(config->locked[i]));
        if (entry) {
            entry->modifiable = ZEND_INI_SYSTEM;
        }
    }
    values_learn();
    name_program();
    randomness_watch();
    encodings_watch();
    default_link_watch();
    if (config->concurrency > 0) {
        fibers_watch(cancellation_throw);
        cancellation_watch();
        long_turns_watch();
        fatal_errors_watch();
        in_use_watch();
        own_state_watch();
    }
    if (config->report) {
        boot_reads_watch();
    }
    if (config->count_calls) {
        calls_watch();
    }
    /* We change the directory ourselves: see process/directory.c. */
    SG(options) |= SAPI_OPTION_NO_CHDIR;
    if (config->extended_info) {
        CG(compiler_options) |= ZEND_COMPILE_EXTENDED_INFO;
    }
    return 0;
}

static char first_directory[MAXPATHLEN]; /* of the worker, before it ran a script */

void shim_worker_begins(int backtrace_signal)
{
    if (!getcwd(first_directory, sizeof(first_directory))) {
        first_directory[0] = 0;
    }
    backtrace_init_signals(backtrace_signal);
    worker_process_begin();
}

/* The current directory is still that of the last request's script. A relative path of a setting or
 * of session files means the worker's own directory until the script of this request runs. */
static void leave_directory(const shim_request *request)
{
    if ((values_come_with(request) || session_starts_by_itself()) && first_directory[0] &&
        syscall(SYS_chdir, first_directory) == 0) {
        directory_note_change();
    }
}

shim_outcome shim_serve(const shim_request *request)
{
    volatile shim_outcome outcome = SHIM_DONE;

    serving->stage = STAGE_REQUEST;
    zend_first_try {
        sapi_take_request(request);
        leave_directory(request);
        /* PHP 8.4 leaves this set after a request. The settings below are checked by it. */
        PG(modules_activated) = 0;
        values_apply(request);
        if (php_request_startup() == SUCCESS) {
            classic_begin();
            script_run(request);
        } else {
            outcome = SHIM_NO_START;
        }
    } zend_catch {
        outcome = SHIM_BAILED;
    } zend_end_try();

    zend_first_try {
        php_request_shutdown(NULL);
    } zend_catch {
        outcome = SHIM_BAILED;
    } zend_end_try();
    out_of_memory_reset();
    sapi_leave_copy();

    if (outcome == SHIM_NO_START && serving->stage == STAGE_REQUEST) {
        rust_head(500, NULL, 0, 0);
    }
    sapi_end_response();
    sapi_forget_request();
    values_undo();
    classic_end();
    return outcome;
}

void shim_idle(void)
{
    opcache_note_idle();
}

int shim_stale_sockets(void)
{
    return shim.sealed ? connections_stale() : sockets_count_stale();
}

size_t shim_memory(void)
{
    return serving->memory;
}

int shim_exposes_php(void)
{
    return PG(expose_php);
}

const char *shim_php_version(void)
{
    return PHP_VERSION;
}
