/* Settings that come with a request over FastCGI: PHP_VALUE and PHP_ADMIN_VALUE.
 *
 * They are applied before the request begins, as in php-fpm: what PHP does at the beginning of a
 * request (to read a body, to open a session, to start an output buffer) asks for them. They take
 * the place of php.ini's: the request's script may change them, and ini_restore() falls back to
 * them. php-fpm leaves them to the requests that follow. Here they are this request's alone.
 */
#include "ground/values.h"
#include "ground/gateway.h"
#include "ground/mode.h"
#include "ground/state.h"
#include "ground/taint.h"

/* A setting that came with the request, and what it was before. All of it outlives PHP's own memory
 * of the request. */
typedef struct {
    zend_ini_entry *entry;
    zend_string *value, *orig_value;
    int modifiable, orig_modifiable;
    uint8_t modified;
} earlier;

/* how many bytes of paths PHP remembers, and what php.ini says */
static zend_long *path_cache, path_cache_learned;

/* A setting's handler may end the request with a fatal error. No request runs yet, or a worker
 * script does, so the setting is refused instead and nothing else happens. That a script runs is
 * none of its business, either: PHP would not let it change who reads a body, as mbstring does. */
static int take_on(zend_ini_entry *entry, zend_string *value, int stage)
{
    zend_execute_data *frame = EG(current_execute_data);
    volatile int taken = FAILURE;

    if (!entry->on_modify) {
        return SUCCESS;
    }
    EG(current_execute_data) = NULL;
    zend_try {
        taken = entry->on_modify(entry, value, entry->mh_arg1, entry->mh_arg2, entry->mh_arg3,
                                 stage);
    } zend_catch {
        CG(unclean_shutdown) = 0;
        EG(exit_status) = 0;
    } zend_end_try();
    EG(current_execute_data) = frame;
    return taken;
}

static void list_as_modified(zend_ini_entry *entry)
{
    if (entry->modified) {
        zend_hash_add_ptr(EG(modified_ini_directives), entry->name, entry);
    } else if (EG(modified_ini_directives)) {
        zend_hash_del(EG(modified_ini_directives), entry->name);
    }
}

/* As PHP does it for what a script has changed, whatever the setting says to it. */
static void put_back(earlier *e)
{
    zend_ini_entry *entry = e->entry;

    if (entry->modified) {
        zend_restore_ini_entry(entry->name, ZEND_INI_STAGE_DEACTIVATE);
    }
    take_on(entry, e->value, ZEND_INI_STAGE_DEACTIVATE);
    zend_string_release(entry->value);
    entry->value = e->value;
    entry->orig_value = e->orig_value;
    entry->modifiable = e->modifiable;
    entry->orig_modifiable = e->orig_modifiable;
    entry->modified = e->modified;
    list_as_modified(entry);
}

void values_learn(void)
{
    zend_ini_entry *entry =
        zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL("realpath_cache_size"));

    /* What the setting's handler writes to, which PHP does not export. */
    path_cache = (zend_long *)((char *)entry->mh_arg2 + (size_t)entry->mh_arg1);
    path_cache_learned = *path_cache;
}

void values_guard_paths(void)
{
    if (PG(open_basedir) && *PG(open_basedir)) {
        *path_cache = 0;
    }
}

void values_undo(void)
{
    HashTable *settings = serving->earlier_settings;
    earlier *e;

    *path_cache = path_cache_learned; /* php-fpm would do without for ever */
    if (!settings) {
        return;
    }
    serving->earlier_settings = NULL;
    ZEND_HASH_REVERSE_FOREACH_PTR(settings, e) {
        put_back(e);
        free(e);
    } ZEND_HASH_FOREACH_END();
    zend_hash_destroy(settings);
    free(settings);
}

static void remember(zend_ini_entry *entry)
{
    earlier *e;

    if (!serving->earlier_settings) {
        serving->earlier_settings = pemalloc(sizeof(HashTable), 1);
        zend_hash_init(serving->earlier_settings, 8, NULL, NULL, 1);
    } else if (zend_hash_exists(serving->earlier_settings, entry->name)) {
        zend_string_release(entry->value); /* the request names it once more */
        return;
    }
    e = pemalloc(sizeof(*e), 1);
    *e = (earlier){.entry = entry,
                   .value = entry->value,
                   .orig_value = entry->orig_value,
                   .modifiable = entry->modifiable,
                   .orig_modifiable = entry->orig_modifiable,
                   .modified = entry->modified};
    zend_hash_add_ptr(serving->earlier_settings, entry->name, e);
    entry->orig_value = NULL;
    entry->modified = 0;
    list_as_modified(entry);
}

static void disable_classes(const char *list)
{
    for (const char *at = list; *at;) {
        size_t len = strcspn(at, " ,");
        if (len > 0) {
            char *name = estrndup(at, len);
            COMPAT_DISABLE_CLASS(name, len);
            efree(name);
        }
        at += len + (at[len] != 0);
    }
}

/* Nothing brings back a function that was disabled, and with opcache.protect_memory the memory of
 * opcache can be written to only between two calls of mprotect(), which opcache leaves out without
 * it. So the
 * process is replaced. In sealed mode functions come back with the memory. */
static const char *what_lasts(const zend_ini_entry *entry, const zend_string *value)
{
    if (zend_string_equals_literal(entry->name, "opcache.protect_memory")) {
        return entry->value && zend_string_equals(entry->value, value)
                   ? NULL
                   : "a request changed opcache.protect_memory";
    }
    if (!shim.mode->restores_memory && ZSTR_LEN(value) > 0 &&
        (zend_string_equals_literal(entry->name, "disable_functions") ||
         zend_string_equals_literal(entry->name, "disable_classes"))) {
        return "a request disabled functions or classes";
    }
    return NULL;
}

/* A worker script is not replaced for one request's sake, and opcache is enabled again when PHP
 * begins a request, which a worker script's are not to PHP. */
static int is_refused(const zend_ini_entry *entry, const char *lasts)
{
    return shim.worker_script && !shim.mode->restores_memory &&
           (lasts || zend_string_equals_literal(entry->name, "opcache.enable"));
}

static void disable(const zend_string *name, const char *list)
{
    if (*list && zend_string_equals_literal(name, "disable_functions")) {
        zend_disable_functions(list);
    } else if (zend_string_equals_literal(name, "disable_classes")) {
        disable_classes(list);
    }
}

/* A value that the setting refuses is no failure, as in php-fpm. */
static int set(zend_string *name, const zend_string *value, int mode)
{
    zend_ini_entry *entry = zend_hash_find_ptr(EG(ini_directives), name);
    const char *lasts = entry ? what_lasts(entry, value) : NULL;
    zend_string *kept;

    if (!entry || is_refused(entry, lasts)) {
        return FAILURE;
    }
    kept = zend_string_init(ZSTR_VAL(value), ZSTR_LEN(value), 1);
    if (take_on(entry, kept, ZEND_INI_STAGE_ACTIVATE) == FAILURE) {
        zend_string_release(kept);
        return SUCCESS;
    }
    remember(entry);
    entry->value = kept;
    if (mode == ZEND_INI_SYSTEM) {
        entry->modifiable = mode;
    }
    disable(name, ZSTR_VAL(value));
    if (lasts) {
        taint_note(lasts);
    }
    return SUCCESS;
}

#define PASSING "Passing INI directive through FastCGI: "

static void take_value(zval *name, zval *value, zval *index, int kind, void *mode)
{
    (void)index;
    if (!name) {
        return;
    }
    if (kind != ZEND_INI_PARSER_ENTRY) {
        gateway_complain(PASSING "only classic entries are allowed", "", "");
    } else if (Z_STRLEN_P(name) == 0) {
        gateway_complain(PASSING "empty key", "", "");
    } else if (!value) {
        gateway_complain(PASSING "empty value for key '", Z_STRVAL_P(name), "'");
    } else if (set(Z_STR_P(name), Z_STR_P(value), *(int *)mode) == FAILURE) {
        gateway_complain(PASSING "unable to set '", Z_STRVAL_P(name), "'");
    }
}

static void take_values(const shim_request *request, const char *parameter, int mode)
{
    const shim_text *text = gateway_parameter(request, parameter, strlen(parameter));
    char *copy;

    if (text && text->len > 0) {
        spprintf(&copy, 0, "%s\n", text->at);
        zend_parse_ini_string(copy, true, ZEND_INI_SCANNER_NORMAL, take_value, &mode);
        efree(copy);
    }
}

bool values_come_with(const shim_request *request)
{
    return request->is_fastcgi &&
           (gateway_parameter(request, ZEND_STRL("PHP_VALUE")) ||
            gateway_parameter(request, ZEND_STRL("PHP_ADMIN_VALUE")));
}

void values_apply(const shim_request *request)
{
    if (request->is_fastcgi) {
        take_values(request, "PHP_VALUE", ZEND_INI_USER);
        take_values(request, "PHP_ADMIN_VALUE", ZEND_INI_SYSTEM);
    }
}
