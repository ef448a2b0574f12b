/* Encodings and the language, as ext/mbstring's functions tell and set them. */
#include "encodings.h"
#include "state.h"

static const char *const names[] = {
    "mb_regex_encoding", "mb_internal_encoding", "mb_http_output",
    "mb_language",       "mb_detect_order",      "mb_substitute_character",
};
enum { REGEX_ENCODING, ENCODINGS = sizeof(names) / sizeof(*names) };

/* Of the script, when its loop began. */
static struct {
    zend_function *functions[ENCODINGS];
    zval values[ENCODINGS];
    /* a copy of the extension's globals: equal means unchanged, but for the REGEX_ENCODING */
    void *globals;
} base;

static zend_function *find_function(const char *name)
{
    return zend_hash_str_find_ptr(CG(function_table), name, strlen(name));
}

void encodings_learn(void)
{
    zend_module_entry *mb = shim.modules.mbstring;

    for (int i = 0; i < ENCODINGS; i++) {
        zend_function *f = find_function(names[i]);
        base.functions[i] = f;
        ZVAL_UNDEF(&base.values[i]);
        if (f) {
            zend_call_known_function(f, NULL, NULL, &base.values[i], 0, NULL, NULL);
        }
    }
    base.globals = NULL;
    if (mb && mb->globals_ptr && mb->globals_size) {
        base.globals = emalloc(mb->globals_size);
        memcpy(base.globals, mb->globals_ptr, mb->globals_size);
    }
}

static void restore(int i)
{
    zend_function *f = base.functions[i];
    zval now, result;

    if (!f || Z_TYPE(base.values[i]) == IS_UNDEF) {
        return;
    }
    ZVAL_UNDEF(&now);
    zend_call_known_function(f, NULL, NULL, &now, 0, NULL, NULL);
    if (!zend_is_identical(&now, &base.values[i])) {
        ZVAL_UNDEF(&result);
        zend_call_known_function(f, NULL, NULL, &result, 1, &base.values[i], NULL);
        zval_ptr_dtor(&result);
    }
    zval_ptr_dtor(&now);
}

void encodings_restore(void)
{
    zend_module_entry *mb = shim.modules.mbstring;

    if (!mb || !base.globals) {
        return;
    }
    restore(REGEX_ENCODING);
    if (memcmp(base.globals, mb->globals_ptr, mb->globals_size) == 0) {
        return;
    }
    for (int i = REGEX_ENCODING + 1; i < ENCODINGS; i++) {
        restore(i);
    }
    memcpy(base.globals, mb->globals_ptr, mb->globals_size);
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
