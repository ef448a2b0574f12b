/* What is printed for people: --info, and what php-fpm prints with -v, -m and -i. */
#include <string.h>

#include "ground/state.h"

/* Runs it as a request that has no response: what it prints goes to standard output. */
static void print_with(void (*print)(void))
{
    serving->stage = STAGE_OUTSIDE;
    zend_first_try {
        if (php_request_startup() == SUCCESS) {
            SG(headers_sent) = 1;
            SG(request_info).no_headers = 1;
            print();
        }
    } zend_end_try();
    zend_first_try {
        php_request_shutdown(NULL);
    } zend_end_try();
}

static void print_extension(void *data)
{
    php_printf(" %s", ((zend_extension *)data)->name);
}

static void print_info(void)
{
    zend_module_entry *module;
    zval enabled;

    php_printf("PHP         %s (non-thread-safe, %s)\n", PHP_VERSION,
               ZEND_DEBUG ? "debug" : "release");
    php_printf("Built with  headers of PHP %s, shim version %d\n", PHP_VERSION, SHIM_VERSION);
    php_printf("SAPI        %s\n", sapi_module.name);
    php_printf("php.ini     %s\n", php_ini_opened_path ? php_ini_opened_path : "(none)");
    php_printf("Scanned     %s\n",
               php_ini_scanned_path && *php_ini_scanned_path ? php_ini_scanned_path : "(none)");
    php_printf("Extensions ");
    ZEND_HASH_FOREACH_PTR(&module_registry, module) {
        php_printf(" %s", module->name);
    } ZEND_HASH_FOREACH_END();
    php_printf("\nZend       ");
    zend_llist_apply(&zend_extensions, print_extension);
    if (zend_hash_str_exists(&module_registry, ZEND_STRL("zend opcache"))) {
        zend_eval_string("(bool) @opcache_get_status(false)", &enabled, "info");
        php_printf("\nopcache     %s\n",
                   zend_is_true(&enabled) ? "on" : "loaded, but off (opcache.enable)");
    } else {
        php_printf("\nopcache     not loaded: every request compiles its scripts anew\n");
    }
}

void shim_info(void)
{
    print_with(print_info);
}

/* Only phpinfo() says when libphp was built. */
static void print_version(void)
{
    static const char before[] = "Build Date => ";
    zval info;
    const char *date = NULL;

    sapi_module.phpinfo_as_text = 1;
    php_output_start_default();
    php_print_info(PHP_INFO_GENERAL);
    ZVAL_UNDEF(&info);
    php_output_get_contents(&info);
    php_output_discard();
    if (Z_TYPE(info) == IS_STRING && (date = strstr(Z_STRVAL(info), before))) {
        date += sizeof(before) - 1;
    }
    php_printf("PHP %s (%s) (built: %.*s)\nCopyright (c) The PHP Group\n%s", PHP_VERSION,
               sapi_module.name, date ? (int)strcspn(date, "\n") : 7, date ? date : "unknown",
               get_zend_version());
    zval_ptr_dtor(&info);
}

static int by_name(Bucket *a, Bucket *b)
{
    return strcasecmp(((zend_module_entry *)Z_PTR(a->val))->name,
                      ((zend_module_entry *)Z_PTR(b->val))->name);
}

static void print_extension_line(void *data)
{
    php_printf("%s\n", ((zend_extension *)data)->name);
}

static void print_modules(void)
{
    zend_module_entry *module;
    HashTable sorted;

    zend_hash_init(&sorted, 64, NULL, NULL, 0);
    zend_hash_copy(&sorted, &module_registry, NULL);
    zend_hash_sort(&sorted, by_name, 0);
    php_printf("[PHP Modules]\n");
    ZEND_HASH_FOREACH_PTR(&sorted, module) {
        php_printf("%s\n", module->name);
    } ZEND_HASH_FOREACH_END();
    zend_hash_destroy(&sorted);
    php_printf("\n[Zend Modules]\n");
    zend_llist_apply(&zend_extensions, print_extension_line);
    php_printf("\n");
}

static void print_all(void)
{
    sapi_module.phpinfo_as_text = 1;
    php_print_info(PHP_INFO_ALL);
}

/* What php.ini and all else made of them, and where that stands, for programs: `NAME=VALUE`, each
 * ended by a NUL. */
static void print_settings(void)
{
    zend_ini_entry *entry;
    zend_module_entry *module;

    php_printf("php.ini=%s%c", php_ini_opened_path ? php_ini_opened_path : "", 0);
    ZEND_HASH_FOREACH_PTR(&module_registry, module) {
        php_printf("extension=%s%c", module->name, 0);
    } ZEND_HASH_FOREACH_END();
    ZEND_HASH_MAP_FOREACH_PTR(EG(ini_directives), entry) {
        php_printf("%s=%s%c", ZSTR_VAL(entry->name), entry->value ? ZSTR_VAL(entry->value) : "", 0);
    } ZEND_HASH_FOREACH_END();
}

void shim_show(int what)
{
    print_with(what == SHIM_SHOW_VERSION    ? print_version
               : what == SHIM_SHOW_MODULES  ? print_modules
               : what == SHIM_SHOW_SETTINGS ? print_settings
                                            : print_all);
    fflush(stdout);
}
