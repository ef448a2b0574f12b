/* Encodings and the language, as ext/mbstring's functions return and set them. */
#include "ground/encodings.h"
#include "ground/override.h"
#include "ground/state.h"

#if __has_include(<ext/mbstring/mbstring.h>)
#include <ext/mbstring/mbstring.h>
#endif

static const char *const names[] = {
    "mb_regex_encoding", "mb_internal_encoding", "mb_http_output",
    "mb_language",       "mb_detect_order",      "mb_substitute_character",
};
enum { REGEX_ENCODING, ENCODINGS = sizeof(names) / sizeof(*names) };

/* The script's values when its loop began: each request begins with them. */
static struct {
    zend_function *functions[ENCODINGS];
    zval values[ENCODINGS];
    /* a copy of the extension's globals. If they are equal to it nothing was changed, except maybe
     * REGEX_ENCODING, which is elsewhere */
    void *globals;
} base;

static zend_function *find_function(const char *name)
{
    return zend_hash_str_find_ptr(CG(function_table), name, strlen(name));
}

static bool regex_has_changed; /* REGEX_ENCODING was set since encodings_learn() */
static zif_handler real_regex_encoding;

static ZEND_NAMED_FUNCTION(notice_regex_encoding)
{
    regex_has_changed |= ZEND_NUM_ARGS() > 0;
    real_regex_encoding(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static void get(int i, zval *value)
{
    ZVAL_UNDEF(value);
    if (base.functions[i]) {
        zend_call_known_function(base.functions[i], NULL, NULL, value, 0, NULL, NULL);
    }
}

static void set(int i, zval *value)
{
    zval result;

    ZVAL_UNDEF(&result);
    if (base.functions[i]) {
        zend_call_known_function(base.functions[i], NULL, NULL, &result, 1, value, NULL);
    }
    zval_ptr_dtor(&result);
}

void encodings_watch(void)
{
    override_function(NULL, "mb_regex_encoding", &real_regex_encoding, notice_regex_encoding);
}

void encodings_learn(void)
{
    zend_module_entry *mb = shim.modules.mbstring;

    for (int i = 0; i < ENCODINGS; i++) {
        base.functions[i] = find_function(names[i]);
        get(i, &base.values[i]);
    }
    regex_has_changed = false;
    base.globals = NULL;
    if (mb && mb->globals_ptr && mb->globals_size) {
        base.globals = emalloc(mb->globals_size);
        memcpy(base.globals, mb->globals_ptr, mb->globals_size);
    }
}

static void set_if_changed(int i, zval *value)
{
    zval now;

    if (Z_TYPE_P(value) == IS_UNDEF) {
        return;
    }
    get(i, &now);
    if (!zend_is_identical(&now, value)) {
        set(i, value);
    }
    zval_ptr_dtor(&now);
}

/* mb_http_input(), which PHP forgets at the end of each of its own requests. */
static void forget_input(void *globals)
{
#if __has_include(<ext/mbstring/mbstring.h>)
    zend_mbstring_globals *mb = globals;

    mb->http_input_identify = NULL;
    mb->http_input_identify_get = NULL;
    mb->http_input_identify_post = NULL;
    mb->http_input_identify_cookie = NULL;
    mb->http_input_identify_string = NULL;
#else
    (void)globals;
#endif
}

void encodings_restore(void)
{
    zend_module_entry *mb = shim.modules.mbstring;

    if (!mb || !base.globals) {
        return;
    }
    if (regex_has_changed) {
        set_if_changed(REGEX_ENCODING, &base.values[REGEX_ENCODING]);
        regex_has_changed = false;
    }
    if (memcmp(base.globals, mb->globals_ptr, mb->globals_size) == 0) {
        return;
    }
    forget_input(mb->globals_ptr);
    for (int i = REGEX_ENCODING + 1; i < ENCODINGS; i++) {
        set_if_changed(i, &base.values[i]);
    }
    memcpy(base.globals, mb->globals_ptr, mb->globals_size);
}

zval *encodings_take(void)
{
    zend_module_entry *mb = shim.modules.mbstring;
    zval *of_regex;

    if (!mb || !base.globals ||
        (!regex_has_changed && memcmp(base.globals, mb->globals_ptr, mb->globals_size) == 0)) {
        return NULL;
    }
    of_regex = emalloc(sizeof(*of_regex));
    get(REGEX_ENCODING, of_regex);
    return of_regex;
}

void encodings_give(zval *of_regex)
{
    set_if_changed(REGEX_ENCODING, of_regex);
    zval_ptr_dtor(of_regex);
    efree(of_regex);
}

void encodings_forget(void)
{
    for (int i = 0; i < ENCODINGS; i++) {
        zval_ptr_dtor(&base.values[i]);
    }
    if (base.globals) {
        efree(base.globals);
    }
}
