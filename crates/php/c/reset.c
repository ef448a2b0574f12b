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

#include "reset.h"
#include "session.h"
#include "state.h"
#include "syscall_cache.h"

typedef struct {
    zval current;
    zval *stack;
    int *levels; /* NULL for exception handlers */
    int count;
    int level;
} handlers;

static const char *const encoding_functions[] = {
    "mb_regex_encoding", "mb_internal_encoding", "mb_http_output",
    "mb_language",       "mb_detect_order",      "mb_substitute_character",
};
enum { REGEX_ENCODING, ENCODINGS = sizeof(encoding_functions) / sizeof(*encoding_functions) };

static struct {
    int learned;
    HashTable *ini; /* name => value of each setting changed at boot */
    handlers error, exception;
    char directory[PATH_MAX];
    int umask;
    char *locale;
    zend_string *ctype;
    bool locale_changed;
    char *timezone;
    zend_function *encoding_functions[ENCODINGS];
    zval encodings[ENCODINGS];
    /* a copy of ext/mbstring's globals: equal means unchanged, but for the REGEX_ENCODING */
    void *mb_globals;
    HashTable putenv;
    zval env;
} base;

static int wants(uint32_t kind)
{
    return (shim.config->reset & kind) != 0;
}

/* ---- settings ---- */

static void learn_ini(void)
{
    zend_ini_entry *entry;

    ALLOC_HASHTABLE(base.ini);
    zend_hash_init(base.ini, 8, NULL, ZVAL_PTR_DTOR, 0);
    if (EG(modified_ini_directives)) {
        ZEND_HASH_FOREACH_PTR(EG(modified_ini_directives), entry) {
            zval value;
            if (entry->value) {
                ZVAL_STR_COPY(&value, entry->value);
                zend_hash_update(base.ini, entry->name, &value);
            }
        } ZEND_HASH_FOREACH_END();
    }
}

/* session.save_handler is session.c's concern. */
static int is_lazy(const zend_string *name)
{
    return zend_string_equals_literal(name, "session.save_path") ||
           zend_string_equals_literal(name, "session.save_handler");
}

static void restore_ini(void)
{
    zend_ini_entry *entry;
    zend_string *name;
    zval *value;

    if (EG(modified_ini_directives)) {
        ZEND_HASH_FOREACH_PTR(EG(modified_ini_directives), entry) {
            if (!is_lazy(entry->name) && !zend_hash_exists(base.ini, entry->name)) {
                zend_restore_ini_entry(entry->name, ZEND_INI_STAGE_RUNTIME);
            }
        } ZEND_HASH_FOREACH_END();
    }
    ZEND_HASH_FOREACH_STR_KEY_VAL(base.ini, name, value) {
        entry = zend_hash_find_ptr(EG(ini_directives), name);
        if (entry && !is_lazy(name) &&
            !(entry->value && zend_string_equals(entry->value, Z_STR_P(value)))) {
            zend_alter_ini_entry(name, Z_STR_P(value), ZEND_INI_USER, ZEND_INI_STAGE_RUNTIME);
        }
    } ZEND_HASH_FOREACH_END();
}

/* ---- error and exception handlers ---- */

static int is_same_callable(const zval *a, const zval *b)
{
    if (Z_TYPE_P(a) != Z_TYPE_P(b)) {
        return 0;
    }
    if (Z_TYPE_P(a) == IS_STRING) {
        return zend_string_equals(Z_STR_P(a), Z_STR_P(b));
    }
    return Z_TYPE_P(a) == IS_UNDEF || Z_PTR_P(a) == Z_PTR_P(b);
}

static void learn_handlers(handlers *to, zval *current, zend_stack *stack, zend_stack *levels,
                           int level)
{
    ZVAL_COPY(&to->current, current);
    to->level = level;
    to->count = zend_stack_count(stack);
    to->stack = safe_emalloc((size_t)to->count, sizeof(zval), 1);
    to->levels = levels ? safe_emalloc((size_t)to->count, sizeof(int), 1) : NULL;
    for (int i = 0; i < to->count; i++) {
        ZVAL_COPY(&to->stack[i], (zval *)zend_stack_base(stack) + i);
        if (levels) {
            to->levels[i] = ((int *)zend_stack_base(levels))[i];
        }
    }
}

static void restore_handlers(handlers *from, zval *current, zend_stack *stack, zend_stack *levels)
{
    int same = is_same_callable(&from->current, current) && zend_stack_count(stack) == from->count;

    for (int i = 0; same && i < from->count; i++) {
        same = is_same_callable(&from->stack[i], (zval *)zend_stack_base(stack) + i);
    }
    if (same) {
        return;
    }
    zval gone = *current;
    ZVAL_COPY(current, &from->current);
    zval_ptr_dtor(&gone);
    zend_stack_clean(stack, (void (*)(void *))ZVAL_PTR_DTOR, 1);
    if (levels) {
        zend_stack_clean(levels, NULL, 1);
    }
    for (int i = 0; i < from->count; i++) {
        zval copy;
        ZVAL_COPY(&copy, &from->stack[i]);
        zend_stack_push(stack, &copy);
        if (levels) {
            zend_stack_push(levels, &from->levels[i]);
        }
    }
}

static void forget_handlers(handlers *h)
{
    zval_ptr_dtor(&h->current);
    for (int i = 0; i < h->count; i++) {
        zval_ptr_dtor(&h->stack[i]);
    }
    efree(h->stack);
    if (h->levels) {
        efree(h->levels);
    }
}

void reset_last_error(void)
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

/* ---- locale, time zone, encodings ---- */

static void learn_locale(void)
{
    const char *now = setlocale(LC_ALL, NULL);

    base.locale = now ? strdup(now) : NULL;
    base.locale_changed = BG(locale_changed);
    base.ctype = BG(ctype_string) ? zend_string_copy(BG(ctype_string)) : NULL;
    BG(locale_changed) = 0;
}

static void restore_locale(void)
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

static zend_function *find_function(const char *name)
{
    return zend_hash_str_find_ptr(CG(function_table), name, strlen(name));
}

static void learn_encodings(void)
{
    zend_module_entry *mb = shim.modules.mbstring;

    for (int i = 0; i < ENCODINGS; i++) {
        zend_function *f = find_function(encoding_functions[i]);
        base.encoding_functions[i] = f;
        ZVAL_UNDEF(&base.encodings[i]);
        if (f) {
            zend_call_known_function(f, NULL, NULL, &base.encodings[i], 0, NULL, NULL);
        }
    }
    if (mb && mb->globals_ptr && mb->globals_size) {
        base.mb_globals = emalloc(mb->globals_size);
        memcpy(base.mb_globals, mb->globals_ptr, mb->globals_size);
    }
}

static void restore_encoding(int i)
{
    zend_function *f = base.encoding_functions[i];
    zval now, result;

    if (!f || Z_TYPE(base.encodings[i]) == IS_UNDEF) {
        return;
    }
    ZVAL_UNDEF(&now);
    zend_call_known_function(f, NULL, NULL, &now, 0, NULL, NULL);
    if (!zend_is_identical(&now, &base.encodings[i])) {
        ZVAL_UNDEF(&result);
        zend_call_known_function(f, NULL, NULL, &result, 1, &base.encodings[i], NULL);
        zval_ptr_dtor(&result);
    }
    zval_ptr_dtor(&now);
}

static void restore_encodings(void)
{
    zend_module_entry *mb = shim.modules.mbstring;

    if (!mb || !base.mb_globals) {
        return;
    }
    restore_encoding(REGEX_ENCODING);
    if (memcmp(base.mb_globals, mb->globals_ptr, mb->globals_size) == 0) {
        return;
    }
    for (int i = REGEX_ENCODING + 1; i < ENCODINGS; i++) {
        restore_encoding(i);
    }
    memcpy(base.mb_globals, mb->globals_ptr, mb->globals_size);
}

/* ---- environment ---- */

static zval *env_variable(void)
{
    zval *env = zend_hash_find(&EG(symbol_table), ZSTR_KNOWN(ZEND_STR_AUTOGLOBAL_ENV));
    return env && Z_TYPE_P(env) == IS_INDIRECT ? Z_INDIRECT_P(env) : env;
}

static void learn_env(void)
{
    zval *env;

    /* It may not exist yet: it is made when a script that names it is compiled. */
    zend_is_auto_global(ZSTR_KNOWN(ZEND_STR_AUTOGLOBAL_ENV));
    env = env_variable();

    /* putenv() keeps what it replaced in this table, and puts it back when the entry goes. The
     * boot's entries stay aside, so that emptying the table undoes the request's changes only. */
    base.putenv = BG(putenv_ht);
    zend_hash_init(&BG(putenv_ht), 1, NULL, base.putenv.pDestructor, 0);
    ZVAL_UNDEF(&base.env);
    if (env && Z_TYPE_P(env) == IS_ARRAY) {
        ZVAL_COPY(&base.env, env);
    }
}

static void restore_env(void)
{
    zval *env = env_variable();

    if (zend_hash_num_elements(&BG(putenv_ht)) > 0) {
        zend_hash_clean(&BG(putenv_ht));
    }
    if (Z_TYPE(base.env) == IS_UNDEF ||
        (env && Z_TYPE_P(env) == IS_ARRAY && Z_ARR_P(env) == Z_ARR(base.env))) {
        return;
    }
    Z_ADDREF(base.env);
    zend_hash_update(&EG(symbol_table), ZSTR_KNOWN(ZEND_STR_AUTOGLOBAL_ENV), &base.env);
}

/* ---- superglobals, streams ---- */

static void refresh(zend_string *name)
{
    if (zend_hash_exists(&EG(symbol_table), name)) {
        zend_is_auto_global(name);
    }
}

static void disarm(zend_string *name)
{
    zend_auto_global *global = zend_hash_find_ptr(CG(auto_globals), name);
    if (global) {
        global->armed = 0;
    }
}

/* As php_hash_environment(), but what is as it should be is not written: in a sealed worker each
 * page written to is copied back. */
static void arm_superglobals(void)
{
    zend_auto_global *global;

    ZEND_HASH_MAP_FOREACH_PTR(CG(auto_globals), global) {
        bool armed = global->jit ||
                     (global->auto_global_callback && global->auto_global_callback(global->name));
        if (global->armed != armed) {
            global->armed = armed;
        }
    } ZEND_HASH_FOREACH_END();
    if (PG(register_argc_argv)) {
        php_build_argv(SG(request_info).query_string, &PG(http_globals)[TRACK_VARS_SERVER]);
    }
}

void reset_superglobals(void)
{
    zend_string *env = ZSTR_KNOWN(ZEND_STR_AUTOGLOBAL_ENV);

    for (int i = 0; i < NUM_TRACK_VARS; i++) {
        zval_ptr_dtor_nogc(&PG(http_globals)[i]);
        ZVAL_UNDEF(&PG(http_globals)[i]);
    }
    arm_superglobals();
    /* These are made when a script that names them is compiled. Ours may have been compiled long
     * ago: whatever is in the symbol table is in use, and made anew. What is not, is made when it
     * is first needed. */
    refresh(ZSTR_KNOWN(ZEND_STR_AUTOGLOBAL_SERVER));
    refresh(ZSTR_KNOWN(ZEND_STR_AUTOGLOBAL_REQUEST));
    /* $_ENV is the application's: dotenv libraries fill it at boot. restore_env() looks after
     * it. */
    if (zend_hash_exists(&EG(symbol_table), env)) {
        disarm(env);
        if (wants(SHIM_RESET_ENV) && base.learned) {
            restore_env();
        }
    }
}

/* The request's body is a stream, and streams live as long as the script. A handle on php://input
 * that the application kept points into it: those are closed first. */
void reset_close_streams(void)
{
    zend_module_entry *filter = shim.modules.filter;
    php_stream *body = SG(request_info).request_body;
    zend_resource *resource;

    if (filter && filter->request_shutdown_func) {
        filter->request_shutdown_func(filter->type, filter->module_number);
    }
    if (!body) {
        return;
    }
    ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
        if (resource->type == php_file_le_stream() && resource->ptr &&
            strcmp(((php_stream *)resource->ptr)->ops->label, "Input") == 0) {
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

/* ---- all together ---- */

void reset_learn(void)
{
    char **zone = timezone_place();

    memset(&base, 0, sizeof(base));
    learn_ini();
    learn_handlers(&base.error, &EG(user_error_handler), &EG(user_error_handlers),
                   &EG(user_error_handlers_error_reporting),
                   EG(user_error_handler_error_reporting));
    learn_handlers(&base.exception, &EG(user_exception_handler), &EG(user_exception_handlers), NULL,
                   0);
    if (!getcwd(base.directory, sizeof(base.directory))) {
        base.directory[0] = 0;
    }
    if (base.directory[0]) {
        /* from here on, "moved" means: since the loop began */
        syscall_cache_return_to(base.directory);
    }
    base.umask = BG(umask);
    BG(umask) = -1;
    learn_locale();
    base.timezone = zone && *zone ? estrdup(*zone) : NULL;
    learn_encodings();
    learn_env();
    session_learn();
    reset_last_error();
    base.learned = 1;
}

void reset_restore(void)
{
    if (wants(SHIM_RESET_INI)) {
        restore_ini();
    }
    if (wants(SHIM_RESET_ERROR_HANDLERS)) {
        restore_handlers(&base.error, &EG(user_error_handler), &EG(user_error_handlers),
                         &EG(user_error_handlers_error_reporting));
        EG(user_error_handler_error_reporting) = base.error.level;
        restore_handlers(&base.exception, &EG(user_exception_handler), &EG(user_exception_handlers),
                         NULL);
        reset_last_error();
    }
    if (wants(SHIM_RESET_CWD) && syscall_cache_directory_moved() && base.directory[0]) {
        syscall_cache_return_to(base.directory);
    }
    if (wants(SHIM_RESET_UMASK) && BG(umask) != -1) {
        umask((mode_t)BG(umask));
        BG(umask) = -1;
    }
    if (wants(SHIM_RESET_LOCALE)) {
        restore_locale();
    }
    if (wants(SHIM_RESET_TIMEZONE)) {
        restore_timezone();
    }
    if (wants(SHIM_RESET_ENCODINGS)) {
        restore_encodings();
    }
    if (wants(SHIM_RESET_ENV)) {
        restore_env();
    }
    if (wants(SHIM_RESET_SESSION)) {
        session_restore_handler();
    }
    reset_rewriter(&BG(url_adapt_output_ex));
    reset_rewriter(&BG(url_adapt_session_ex));
    php_clear_stat_cache(0, NULL, 0);
    zend_set_memory_limit(PG(memory_limit));
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
    zend_hash_destroy(&BG(putenv_ht));
    BG(putenv_ht) = base.putenv;
    zval_ptr_dtor(&base.env);
    for (int i = 0; i < ENCODINGS; i++) {
        zval_ptr_dtor(&base.encodings[i]);
    }
    if (base.mb_globals) {
        efree(base.mb_globals);
    }
    if (base.timezone) {
        efree(base.timezone);
    }
    zend_hash_destroy(base.ini);
    FREE_HASHTABLE(base.ini);
    forget_handlers(&base.error);
    forget_handlers(&base.exception);
    session_forget();
}
