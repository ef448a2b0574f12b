/* Settings of a process that only functions of PHP return and set.
 *
 * They are in libraries or in private memory of extensions. The functions that set them are
 * noticed: before the first call of a request the value is asked for, and that is the one that it
 * puts back whenever it goes.
 */
#include "async/own_settings.h"
#include "ground/override.h"

/* The function that returns it, the one that sets it, and whether the first wants a null for it. */
#define SETTINGS(ROW)                                                 \
    ROW(mb_regex_set_options, mb_regex_set_options, false)            \
    ROW(textdomain, textdomain, true)                                 \
    ROW(snmp_get_quick_print, snmp_set_quick_print, false)            \
    ROW(snmp_get_valueretrieval, snmp_set_valueretrieval, false)

#define NUMBER(get, set, null) SETTING_##set,
enum { SETTINGS(NUMBER) COUNT };

typedef struct own_settings {
    bool is_set[COUNT];
    zval before[COUNT], mine[COUNT];
} own_settings;

static struct {
    zend_function *get, *set;
} functions[COUNT];

static const bool wants_null[] = {
#define WANTS_NULL(get, set, null) null,
    SETTINGS(WANTS_NULL)
};

static void get(int i, zval *value)
{
    zval null;

    ZVAL_NULL(&null);
    ZVAL_UNDEF(value);
    zend_call_known_function(functions[i].get, NULL, NULL, value, wants_null[i], &null, NULL);
}

static void set(int i, zval *value)
{
    zval result;

    ZVAL_UNDEF(&result);
    zend_call_known_function(functions[i].set, NULL, NULL, &result, 1, value, NULL);
    zval_ptr_dtor(&result);
    zval_ptr_dtor(value);
    ZVAL_UNDEF(value);
}

static void note(int i)
{
    if (!serving->own) {
        return;
    }
    if (!serving->library_settings) {
        serving->library_settings = ecalloc(1, sizeof(*serving->library_settings));
    }
    if (!serving->library_settings->is_set[i]) {
        serving->library_settings->is_set[i] = true;
        get(i, &serving->library_settings->before[i]);
    }
}

#define NOTICE(get, set, null)                             \
    static zif_handler real_##set;                         \
    static ZEND_NAMED_FUNCTION(notice_##set)               \
    {                                                      \
        note(SETTING_##set);                               \
        real_##set(INTERNAL_FUNCTION_PARAM_PASSTHRU);      \
    }

SETTINGS(NOTICE)

static zend_function *find(const char *name)
{
    return zend_hash_str_find_ptr(CG(function_table), name, strlen(name));
}

void own_settings_watch(void)
{
#define STAND_BEFORE(get, set, null) \
    override_function(NULL, #set, &real_##set, notice_##set);
    SETTINGS(STAND_BEFORE)
}

void own_settings_learn(void)
{
#define FIND(get_, set_, null)                    \
    functions[SETTING_##set_].get = find(#get_);  \
    functions[SETTING_##set_].set = find(#set_);
    SETTINGS(FIND)
}

void own_settings_leave(void)
{
    own_settings *settings = serving->library_settings;

    for (int i = 0; settings && i < COUNT; i++) {
        if (settings->is_set[i]) {
            zval before;
            get(i, &settings->mine[i]);
            ZVAL_COPY(&before, &settings->before[i]);
            set(i, &before);
        }
    }
}

void own_settings_enter(void)
{
    own_settings *settings = serving->library_settings;

    for (int i = 0; settings && i < COUNT; i++) {
        if (settings->is_set[i]) {
            set(i, &settings->mine[i]);
        }
    }
}

void own_settings_end(void)
{
    own_settings *settings = serving->library_settings;

    for (int i = 0; settings && i < COUNT; i++) {
        if (settings->is_set[i]) {
            set(i, &settings->before[i]);
        }
    }
    if (settings) {
        efree(settings);
        serving->library_settings = NULL;
    }
}
