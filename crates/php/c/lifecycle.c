/* Module start-up and the classic request: everything that php-fpm does around a script, without a
 * socket. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lifecycle.h"
#include "async/cancellation.h"
#include "async/fatal_errors.h"
#include "async/fibers.h"
#include "async/in_use.h"
#include "async/long_turns.h"
#include "async/own_state.h"
#include "backtrace.h"
#include "calls.h"
#include "classic.h"
#include "default_link.h"
#include "encodings.h"
#include "filter_input.h"
#include "gateway.h"
#include "ini_files.h"
#include "out_of_memory.h"
#include "sapi.h"
#include "sealed/boot_reads.h"
#include "sealed/dependencies.h"
#include "sealed/descriptors.h"
#include "sealed/randomness.h"
#include "session.h"
#include "state.h"
#include "syscall_cache.h"
#include "values.h"

/* Once: names are looked for in a table. */
static void find_modules(known_modules *modules)
{
    modules->date = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("date"));
    modules->filter = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("filter"));
    modules->libxml = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("libxml"));
    modules->mbstring = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("mbstring"));
    modules->tidy = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("tidy"));
    modules->zlib = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("zlib"));
}

/* PHP_BINARY is php-fpm's own path under php-fpm. Not as `executable_location`: PHP would look for
 * a php.ini beside the program then. */
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
    dependencies_note_start();
    descriptors_note_own();
    sapi_startup(&shim_sapi);
    shim_sapi.ini_entries = (char *)config->ini;
    /* A web server has no current directory that could mean anything: a php.ini lying there is not
     * ours. */
    shim_sapi.php_ini_ignore_cwd = 1;
    shim_sapi.php_ini_ignore = config->no_ini;
    shim_sapi.php_ini_path_override = (char *)config->ini_file;
    shim_sapi.ini_defaults = ini_files_choose;
    if (shim_sapi.startup(&shim_sapi) == FAILURE) {
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
        fibers_watch();
        cancellation_watch();
        long_turns_watch();
        fatal_errors_watch();
        filter_input_watch();
        in_use_watch();
        own_state_watch();
    }
    if (config->report) {
        boot_reads_watch();
    }
    if (config->count_calls) {
        calls_watch();
    }
    /* We change the directory ourselves: see syscall_cache.c. */
    SG(options) |= SAPI_OPTION_NO_CHDIR;
    if (config->extended_info) {
        CG(compiler_options) |= ZEND_COMPILE_EXTENDED_INFO;
    }
    return 0;
}

void lifecycle_settle_signals(int backtrace_signal)
{
#ifdef ZEND_SIGNALS
    /* PHP would otherwise look at seven signal handlers before each request (7 to 14 system calls)
     * in order to put its deferral in front of handlers that others installed meanwhile. SIGPROF,
     * the only one that PHP uses here, is installed by zend_set_timeout in any case; the others get
     * handlers that may interrupt anything. */
    SIGG(reset) = 0;
#endif
    backtrace_install(backtrace_signal);
}

static char first_directory[MAXPATHLEN]; /* of the worker, before it ran a script */

void shim_worker_begins(int backtrace_signal)
{
    if (!getcwd(first_directory, sizeof(first_directory))) {
        first_directory[0] = 0;
    }
    lifecycle_settle_signals(backtrace_signal);
    syscall_cache_worker_begins();
}

/* What is known of the file at a path, and until when that is believed.
 *
 * php-fpm opens and stats the file at each request although opcache has it. Here a file that was
 * fine is believed for a second. Consequence: for up to that second a deleted script is still
 * served from opcache, which by default looks at the file every two seconds itself. */
typedef struct {
    lasting_place *place;
    lasting_place fresh; /* what the place holds once the file is known */
} knowledge;

static knowledge knowledge_of(const char *path, size_t len)
{
    static lasting_place own[LASTING_PLACES];
    struct timespec now;
    zend_ulong hash = zend_hash_func(path, len);

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (knowledge){&(shim.lasting ? shim.lasting->scripts : own)[hash % LASTING_PLACES],
                       {hash, now.tv_sec}};
}

static int is_known(const knowledge *k)
{
    return k->place->hash == k->fresh.hash && k->place->until == k->fresh.until;
}

/* PHP remembers for two minutes where a path leads. When a link to a release leads elsewhere and
 * the old release is gone, no script of it could be opened until then. */
static void forget_moved_paths(const shim_text *path, const struct stat *st)
{
    const realpath_cache_bucket *known = realpath_cache_lookup(path->at, path->len, time(NULL));
    struct stat behind;
    char line[1200];
    int len;

    if (!known || (stat(known->realpath, &behind) == 0 && behind.st_ino == st->st_ino &&
                   behind.st_dev == st->st_dev)) {
        return;
    }
    len = snprintf(line, sizeof(line),
                   "%.500s led to %.500s, which is gone or another file: what PHP remembered of "
                   "paths is forgotten",
                   path->at, known->realpath);
    rust_log(SHIM_WARN, line, (size_t)len);
    realpath_cache_clean();
}

/* Says whether the script may be run: 0, or the status that php-fpm answers with. */
static int script_status(const shim_text *path)
{
    knowledge known;
    struct stat st;
    int fd, found;

    if (path->len == 0 || strlen(path->at) != path->len) {
        return 404;
    }
    known = knowledge_of(path->at, path->len);
    if (is_known(&known)) {
        return 0;
    }
    fd = open(path->at, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd == -1) {
        return rust_unopened_status(errno);
    }
    found = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    close(fd);
    if (!found) {
        return 404;
    }
    forget_moved_paths(path, &st);
    *known.place = known.fresh;
    return 0;
}

int shim_file_kind(const char *path, size_t len)
{
    char text[MAXPATHLEN];
    knowledge known;
    struct stat st;

    if (len == 0 || len >= sizeof(text) || memchr(path, 0, len)) {
        return 0;
    }
    known = knowledge_of(path, len);
    if (is_known(&known)) {
        return 1;
    }
    memcpy(text, path, len);
    text[len] = 0;
    if (stat(text, &st) != 0) {
        return 0;
    }
    return S_ISREG(st.st_mode) ? 1 : 2;
}

static void refuse(int status, const shim_text *path)
{
    char line[1200];
    int len, error = errno;

    SG(sapi_headers).http_response_code = status;
    if (status >= 500) {
        PUTS("The script cannot be opened.\n");
        len = snprintf(line, sizeof(line), "Unable to open primary script: %.1000s (%s)", path->at,
                       strerror(error));
    } else if (status == 403) {
        PUTS("Access denied.\n");
        len = snprintf(line, sizeof(line),
                       "Unable to open primary script: %.1000s (Permission denied)", path->at);
    } else {
        PUTS("File not found.\n");
        len = snprintf(line, sizeof(line), "Primary script unknown: %.1000s", path->at);
    }
    rust_log(SHIM_ERROR, line, len < (int)sizeof(line) ? (size_t)len : sizeof(line) - 1);
}

void lifecycle_execute(const char *path, size_t len)
{
    zend_file_handle file;

    syscall_cache_enter_directory_of(path, len);
    zend_stream_init_filename(&file, path);
    file.primary_script = 1;
    EG(exit_status) = 0;
    php_execute_script(&file);
    /* With opcache the handle is in no list of the engine from the second request on. */
    if (!file.in_list) {
        zend_destroy_file_handle(&file);
    }
}

/* Of a site that has no image: a setting of the site's own goes before it. */
static const char *boot_script;

void shim_boot_each_request(const char *script)
{
    boot_script = script;
}

static void execute_with_boot(const shim_text *path)
{
    char *const prepended = PG(auto_prepend_file);

    if (boot_script && !(prepended && prepended[0])) {
        PG(auto_prepend_file) = (char *)boot_script;
    }
    lifecycle_execute(path->at, path->len);
    PG(auto_prepend_file) = prepended;
}

void lifecycle_run(const shim_request *request)
{
    const shim_text *path = &request->field[SHIM_SCRIPT_FILENAME];
    int status;

    if (request->is_fastcgi && !gateway_admits(request)) {
        return;
    }
    status = script_status(path);
    if (status != 0 && request->is_fastcgi) {
        gateway_refuse(status, path);
    } else if (status != 0) {
        refuse(status, path);
    } else {
        execute_with_boot(path);
    }
    gateway_note_failure();
}

/* The directory is still that of the script before. Until the request's own script is run, a
 * relative path of a setting or of the session's files means the worker's own. */
static void leave_directory(const shim_request *request)
{
    if ((values_come_with(request) || session_starts_by_itself()) && first_directory[0] &&
        syscall(SYS_chdir, first_directory) == 0) {
        syscall_cache_note_directory();
    }
}

shim_outcome shim_serve(const shim_request *request)
{
    volatile shim_outcome outcome = SHIM_DONE;

    serving->stage = STAGE_REQUEST;
    zend_first_try {
        sapi_take_request(request);
        leave_directory(request);
        /* PHP 8.4 leaves this set from the request before. Settings are judged by it. */
        PG(modules_activated) = 0;
        values_apply(request);
        if (php_request_startup() == SUCCESS) {
            classic_begin();
            lifecycle_run(request);
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
    out_of_memory_settle();
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
    syscall_cache_idle();
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
