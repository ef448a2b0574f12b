/* What worker mode puts back between requests.
 *
 * The measure is the state in which the script first asked for a request: what it set up before,
 * stays; what a request or the code after it changed, goes. Each kind can be left out
 * (shim_config.reset), and each is checked before it is touched, so that a request that changed
 * nothing costs next to nothing and no system call.
 *
 * One exception: session.save_path stays as a request left it, and so does a save handler chosen by
 * its setting's name. Frameworks set them once, lazily, in the first request that has a session,
 * and would lose their sessions.
 */
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cycle/reset.h"
#include "cycle/session.h"
#include "cycle/superglobals.h"
#include "ground/default_link.h"
#include "ground/encodings.h"
#include "ground/handlers.h"
#include "ground/mode.h"
#include "ground/state.h"
#include "process/directory.h"

static struct {
    int learned;
    HashTable *ini; /* name => value of each setting changed at boot */
    char directory[PATH_MAX];
    zend_function *chdir; /* NULL: it is disabled */
    int umask;
    char *locale;
    zend_string *ctype;
    bool locale_changed;
    char *timezone;
} base;

static int wants(uint32_t kind)
{
    return (shim.config->reset & kind) != 0;
}

/* ---- settings ---- */

/* The value by which a setting can be set again, wherever the process is then. */
static void copy_value(zval *to, const zend_ini_entry *entry)
{
    const char *resolved = zend_string_equals_literal(entry->name, "open_basedir")
                               ? COMPAT_RESOLVED_OPEN_BASEDIR()
                               : NULL;

    if (resolved) {
        ZVAL_STRING(to, resolved);
    } else {
        ZVAL_STR_COPY(to, entry->value);
    }
}

static void learn_ini(void)
{
    zend_ini_entry *entry;

    ALLOC_HASHTABLE(base.ini);
    zend_hash_init(base.ini, 8, NULL, ZVAL_PTR_DTOR, 0);
    if (EG(modified_ini_directives)) {
        ZEND_HASH_FOREACH_PTR(EG(modified_ini_directives), entry) {
            zval value;
            if (entry->value) {
                copy_value(&value, entry);
                zend_hash_update(base.ini, entry->name, &value);
            }
        } ZEND_HASH_FOREACH_END();
    }
}

/* session.save_handler is session.c's concern, and in async mode each request's own. */
static int is_lazy(const zend_string *name)
{
    return zend_string_equals_literal(name, "session.save_path") ||
           (!shim.mode->is_concurrent && zend_string_equals_literal(name, "session.save_handler"));
}

/* Whether settings are put back at the stage at which scripts change them. Not in async mode, where
 * they change whenever another request runs, though no script asks for it: at that stage zlib would
 * begin to compress. */
static bool uses_runtime_stage(void)
{
    return !shim.mode->is_concurrent;
}

/* While a script runs PHP refuses to put back what has no handler for changes, and to widen
 * open_basedir; not at the end of a request, which this is. */
static void put_back(const zend_ini_entry *entry)
{
    const bool is_of_scripts = (entry->modifiable & ZEND_INI_USER) != 0;

    if (uses_runtime_stage() &&
        zend_restore_ini_entry(entry->name, ZEND_INI_STAGE_RUNTIME) == SUCCESS) {
        return;
    }
    if (is_of_scripts) {
        zend_restore_ini_entry(entry->name, ZEND_INI_STAGE_DEACTIVATE);
    }
}

/* The same for a value that it had before. */
static void set_again(zend_string *name, zend_string *value)
{
    if (!uses_runtime_stage() ||
        zend_alter_ini_entry(name, value, ZEND_INI_USER, ZEND_INI_STAGE_RUNTIME) == FAILURE) {
        zend_alter_ini_entry(name, value, ZEND_INI_USER, ZEND_INI_STAGE_ACTIVATE);
    }
}

static void restore_ini(void)
{
    zend_ini_entry *entry;
    zend_string *name;
    zval *value;

    if (EG(modified_ini_directives)) {
        ZEND_HASH_FOREACH_PTR(EG(modified_ini_directives), entry) {
            if (!is_lazy(entry->name) && !zend_hash_exists(base.ini, entry->name)) {
                put_back(entry);
            }
        } ZEND_HASH_FOREACH_END();
    }
    ZEND_HASH_FOREACH_STR_KEY_VAL(base.ini, name, value) {
        entry = zend_hash_find_ptr(EG(ini_directives), name);
        if (entry && !is_lazy(name) &&
            !(entry->value && zend_string_equals(entry->value, Z_STR_P(value)))) {
            set_again(name, Z_STR_P(value));
        }
    } ZEND_HASH_FOREACH_END();
}

HashTable *reset_take_settings(void)
{
    zend_ini_entry *entry;
    HashTable *taken = NULL;

    if (!EG(modified_ini_directives)) {
        return NULL;
    }
    ZEND_HASH_FOREACH_PTR(EG(modified_ini_directives), entry) {
        zval *of_script = zend_hash_find(base.ini, entry->name), value;
        /* Without a value: PHP has refused the first one that the request wanted to set. */
        if (is_lazy(entry->name) || !entry->value) {
            continue;
        }
        if (of_script && zend_string_equals(entry->value, Z_STR_P(of_script))) {
            continue;
        }
        if (!taken) {
            ALLOC_HASHTABLE(taken);
            zend_hash_init(taken, 8, NULL, ZVAL_PTR_DTOR, 0);
        }
        copy_value(&value, entry);
        zend_hash_update(taken, entry->name, &value);
    } ZEND_HASH_FOREACH_END();
    if (taken) {
        restore_ini();
    }
    return taken;
}

void reset_give_settings(HashTable *settings)
{
    zend_string *name;
    zval *value;

    ZEND_HASH_FOREACH_STR_KEY_VAL(settings, name, value) {
        set_again(name, Z_STR_P(value));
    } ZEND_HASH_FOREACH_END();
    zend_hash_destroy(settings);
    FREE_HASHTABLE(settings);
}

/* ---- the last error ---- */

static void forget_last_error(void)
{
    PG(last_error_type) = 0;
    PG(last_error_lineno) = 0;
    if (PG(last_error_message)) {
        zend_string_release(PG(last_error_message));
        PG(last_error_message) = NULL;
    }
    if (PG(last_error_file)) {
        zend_string_release(PG(last_error_file));
        PG(last_error_file) = NULL;
    }
}

/* ---- locale, time zone ---- */

static void learn_locale(void)
{
    const char *now = setlocale(LC_ALL, NULL);

    base.locale = now ? strdup(now) : NULL;
    base.locale_changed = BG(locale_changed);
    base.ctype = BG(ctype_string) ? zend_string_copy(BG(ctype_string)) : NULL;
    BG(locale_changed) = 0;
}

void reset_locale(void)
{
    if (!BG(locale_changed) || !base.locale) {
        return;
    }
    setlocale(LC_ALL, base.locale);
    zend_reset_lc_ctype_locale();
    zend_update_current_locale();
    if (BG(ctype_string)) {
        zend_string_release(BG(ctype_string));
    }
    BG(ctype_string) = base.ctype ? zend_string_copy(base.ctype) : NULL;
    BG(locale_changed) = 0;
}

/* date_default_timezone_set() writes here and nowhere else. */
static char **timezone_place(void)
{
    zend_module_entry *date = shim.modules.date;
    return date && date->globals_ptr ? &((zend_date_globals *)date->globals_ptr)->timezone : NULL;
}

static void restore_timezone(void)
{
    char **now = timezone_place();

    if (!now || (*now == NULL && base.timezone == NULL) ||
        (*now && base.timezone && strcmp(*now, base.timezone) == 0)) {
        return;
    }
    if (*now) {
        efree(*now);
    }
    *now = base.timezone ? estrdup(base.timezone) : NULL;
}

/* ---- streams, output ---- */

/* The copy of a request's input that ext/filter has: it begins a new one with each request, and
 * does not free the one before. */
static void forget_input(void)
{
    zend_module_entry *filter = shim.modules.filter;

    if (filter && filter->request_shutdown_func) {
        filter->request_shutdown_func(filter->type, filter->module_number);
    }
}

/* A stream on php://input begins with a pointer to the body that it reads, from PHP 5.6 on. In
 * async mode there may be such streams of other requests, which are still reading. */
static int reads_body(const php_stream *stream, const php_stream *body)
{
    return strcmp(stream->ops->label, "Input") == 0 &&
           *(const php_stream *const *)stream->abstract == body;
}

/* The request's body is a stream, and streams live as long as the script. A handle on php://input
 * that the application kept points into it: those are closed first. */
void reset_close_streams(void)
{
    php_stream *body = SG(request_info).request_body;
    zend_resource *resource;

    forget_input();
    if (!body) {
        return;
    }
    ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
        if (resource->type == php_file_le_stream() && resource->ptr &&
            reads_body(resource->ptr, body)) {
            zend_list_close(resource);
        }
    } ZEND_HASH_FOREACH_END();
    SG(request_info).request_body = NULL;
    SG(post_read) = 1;
    php_stream_close(body);
}

/* output_add_rewrite_var() and session.use_trans_sid: the handler has gone with the output buffers.
 * While its state says that it is there, no later request would get another. */
static void reset_rewriter(url_adapt_state_ex_t *rewriter)
{
    if (!rewriter->active) {
        return;
    }
    rewriter->active = 0;
    smart_str_free(&rewriter->tag);
    smart_str_free(&rewriter->arg);
    smart_str_free(&rewriter->buf);
    smart_str_free(&rewriter->result);
    smart_str_free(&rewriter->attr_val);
    smart_str_free(&rewriter->form_app);
    smart_str_free(&rewriter->url_app);
}

/* PHP looks for it once, by the environment of that moment, which is a request's. Uploads go there
 * before a script runs. */
static void forget_temporary_directory(void)
{
    if (PG(php_sys_temp_dir)) {
        efree(PG(php_sys_temp_dir));
        PG(php_sys_temp_dir) = NULL;
    }
}

/* ---- all together ---- */

void reset_learn(void)
{
    char **zone = timezone_place();

    memset(&base, 0, sizeof(base));
    learn_ini();
    handlers_learn();
    if (!getcwd(base.directory, sizeof(base.directory))) {
        base.directory[0] = 0;
    }
    if (base.directory[0]) {
        /* from here on, "moved" means: since the loop began */
        directory_return_to(base.directory);
    }
    base.chdir = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("chdir"));
    base.umask = BG(umask);
    BG(umask) = -1;
    learn_locale();
    base.timezone = zone && *zone ? estrdup(*zone) : NULL;
    encodings_learn();
    superglobals_learn();
    session_learn();
    default_link_learn();
    forget_temporary_directory();
    forget_last_error();
    base.learned = 1;
}

/* opcache knows where the process is by PHP's chdir() alone, and would go on to run the scripts of
 * the directory that it was in before. PHP has to ask anew for files there. */
void reset_announce_directory(void)
{
    zval here, result;

    ZVAL_STRING(&here, ".");
    ZVAL_UNDEF(&result);
    if (base.chdir) {
        zend_call_known_function(base.chdir, NULL, NULL, &result, 1, &here, NULL);
    }
    zval_ptr_dtor(&here);
}

void reset_directory(void)
{
    if (!directory_has_moved() || !base.directory[0]) {
        return;
    }
    directory_return_to(base.directory);
    if (!directory_has_moved()) {
        reset_announce_directory();
        directory_return_to("."); /* which was no move */
    }
}

void reset_restore(void)
{
    if (wants(SHIM_RESET_INI)) {
        restore_ini();
    }
    if (wants(SHIM_RESET_ERROR_HANDLERS)) {
        handlers_restore();
        forget_last_error();
    }
    if (wants(SHIM_RESET_CWD)) {
        reset_directory();
    }
    if (wants(SHIM_RESET_UMASK) && BG(umask) != -1) {
        umask((mode_t)BG(umask));
        BG(umask) = -1;
    }
    if (wants(SHIM_RESET_LOCALE)) {
        reset_locale();
    }
    if (wants(SHIM_RESET_TIMEZONE)) {
        restore_timezone();
    }
    if (wants(SHIM_RESET_ENCODINGS)) {
        encodings_restore();
    }
    if (wants(SHIM_RESET_ENV)) {
        superglobals_restore_env();
    }
    if (wants(SHIM_RESET_SESSION)) {
        session_restore_handler();
    }
    default_link_restore();
    forget_temporary_directory();
    reset_rewriter(&BG(url_adapt_output_ex));
    reset_rewriter(&BG(url_adapt_session_ex));
    php_clear_stat_cache(0, NULL, 0);
}

/* The script ends: PHP's own request shutdown undoes the boot's changes, so it gets back what was
 * kept aside. */
void reset_forget(void)
{
    if (!base.learned) {
        return;
    }
    base.learned = 0;
    if (BG(umask) == -1) {
        BG(umask) = base.umask;
    }
    BG(locale_changed) |= base.locale_changed;
    free(base.locale);
    if (base.ctype) {
        zend_string_release(base.ctype);
    }
    superglobals_forget();
    encodings_forget();
    if (base.timezone) {
        efree(base.timezone);
    }
    zend_hash_destroy(base.ini);
    FREE_HASHTABLE(base.ini);
    handlers_forget();
    session_forget();
    default_link_forget();
}
