/* Rows of own_memory.c for extensions, which are found when the loop begins.
 *
 * Three have no header for their globals, but these begin with what is theirs, in all versions of
 * PHP: two with the number of the last error, one with a list of errors.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include <ext/date/lib/timelib.h>
#include <ext/filter/php_filter.h>

#include "async/own_extensions.h"
#include "async/own_values.h"

#if __has_include(<ext/mysqli/php_mysqli_structs.h>)
#include <ext/mysqli/php_mysqli_structs.h>
#endif
#if __has_include(<ext/mbstring/mbstring.h>)
/* As distributions build it; its header does not say. */
#define HAVE_MBREGEX 1
#include <ext/mbstring/mbstring.h>
#endif

static void clear(void *at, size_t size)
{
    memset(at, 0, size);
}

/* ---- how they begin and end ---- */

static void begin_text(void *at, size_t size)
{
    char **text = at;

    (void)size;
    *text = *text ? estrdup(*text) : NULL;
}

static void end_text(void *at, size_t size)
{
    (void)size;
    if (*(char **)at) {
        efree(*(char **)at);
    }
}

static void free_messages(timelib_error_message *messages, int count)
{
    for (int i = 0; i < count; i++) {
        efree(messages[i].message);
    }
    if (messages) {
        efree(messages);
    }
}

/* timelib_error_container_dtor(), which is not exported; in PHP timelib has PHP's memory. */
static void end_date_errors(void *at, size_t size)
{
    timelib_error_container *errors = *(timelib_error_container **)at;

    (void)size;
    if (errors) {
        free_messages(errors->error_messages, errors->error_count);
        free_messages(errors->warning_messages, errors->warning_count);
        efree(errors);
    }
}

/* They are the process's memory, because PHP has one list for all requests. */
static void end_openssl_errors(void *at, size_t size)
{
    (void)size;
    free(*(void **)at);
}

/* Credentials that its library asks for when it logs in, and what it said: PHP writes that to the
 * log at the end of a request, as notices, unless a request has set it. */
static void end_imap(void *at, size_t size)
{
    static const char *const what_it_said[] = {"imap_errors", "imap_alerts"};
    struct {
        char *user, *password;
        void *alerts, *errors;
    } *imap = at;

    (void)size;
    for (size_t i = 0; (imap->alerts || imap->errors) && i < 2; i++) {
        zend_function *ask = zend_hash_str_find_ptr(CG(function_table), what_it_said[i],
                                                    strlen(what_it_said[i]));
        zval said;

        ZVAL_UNDEF(&said);
        if (ask) {
            zend_call_known_function(ask, NULL, NULL, &said, 0, NULL, NULL);
        }
        zval_ptr_dtor(&said);
    }
    if (imap->user) {
        efree(imap->user);
    }
    if (imap->password) {
        efree(imap->password);
    }
}

/* The library's own, which libxml_get_last_error() returns; its headers need not be here. */
typedef struct {
    int domain, code;
    char *message;
    int level;
    char *file;
    int line;
    char *texts[3];
    int numbers[2];
    void *parser, *node;
} xml_error;

static void (*reset_xml_error)(xml_error *error);

static void end_last_xml_error(void *at, size_t size)
{
    (void)size;
    reset_xml_error(at);
}

/* As PHP's start leaves ext/libxml's globals: a request begins with them. */
static char *fresh_xml;

static void begin_xml(void *at, size_t size)
{
    memcpy(at, fresh_xml, size);
}

/* ext/libxml's own end and start of a request, if it has changed anything. A loader of entities may
 * have a destructor, which must find that it is gone. */
static void end_xml(void *at, size_t size)
{
    zend_module_entry *xml = shim.modules.libxml;
    zend_function *get_loader;
    zval loader;

    if (memcmp(at, fresh_xml, size) == 0) {
        return;
    }
    ZVAL_UNDEF(&loader);
    get_loader = zend_hash_str_find_ptr(CG(function_table),
                                        ZEND_STRL("libxml_get_external_entity_loader"));
    if (get_loader) {
        zend_call_known_function(get_loader, NULL, NULL, &loader, 0, NULL, NULL);
    }
    xml->request_shutdown_func(xml->type, xml->module_number);
    xml->post_deactivate_func();
    xml->request_startup_func(xml->type, xml->module_number);
    zval_ptr_dtor(&loader);
}

/* ---- where they are ---- */

static void *globals_of(const char *extension)
{
    zend_module_entry *module =
        zend_hash_str_find_ptr(&module_registry, extension, strlen(extension));

    return module ? module->globals_ptr : NULL;
}

static size_t find_date(own_row *row)
{
    zend_date_globals *date = globals_of("date");

    if (!date) {
        return 0;
    }
    row[0] = (own_row){&date->timezone, sizeof(date->timezone), begin_text, end_text};
    row[1] = (own_row){&date->last_errors, sizeof(date->last_errors),
                       clear, end_date_errors};
    return 2;
}

static size_t find_xml(own_row *row)
{
    zend_module_entry *xml = shim.modules.libxml;
    xml_error *(*last_error)(void);
    size_t found = 0;

    if (!xml || !xml->globals_ptr || !xml->globals_ctor || !xml->request_startup_func ||
        !xml->request_shutdown_func || !xml->post_deactivate_func) {
        return 0;
    }
    if (!fresh_xml) {
        fresh_xml = pecalloc(1, xml->globals_size, 1);
        xml->globals_ctor(fresh_xml);
    }
    row[found++] = (own_row){xml->globals_ptr, xml->globals_size, begin_xml, end_xml};
    *(void **)&last_error = dlsym(RTLD_DEFAULT, "__xmlLastError");
    *(void **)&reset_xml_error = dlsym(RTLD_DEFAULT, "xmlResetError");
    if (last_error && reset_xml_error) {
        row[found++] = (own_row){last_error(), sizeof(xml_error), clear, end_last_xml_error};
    }
    return found;
}

/* All but the last word of its globals, which is a setting. */
static size_t find_imap(own_row *row)
{
    zend_module_entry *imap = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("imap"));

    if (!imap || !imap->globals_ptr || imap->globals_size <= sizeof(void *)) {
        return 0;
    }
    *row = (own_row){imap->globals_ptr, imap->globals_size - sizeof(void *), clear,
                     end_imap};
    return 1;
}

/* Whether a setting is kept in this word, or begins in it. */
static bool is_setting(const char *word)
{
    zend_ini_entry *setting;

    ZEND_HASH_FOREACH_PTR(EG(ini_directives), setting) {
        const char *place = (char *)setting->mh_arg2 + (size_t)setting->mh_arg1;
        if (setting->mh_arg2 && place >= word && place < word + sizeof(void *)) {
            return true;
        }
    } ZEND_HASH_FOREACH_END();
    return false;
}

/* Frees what ob_gzhandler() has begun. */
static void end_zlib(void *at, size_t size)
{
    (void)at, (void)size;
    shim.modules.zlib->request_shutdown_func(shim.modules.zlib->type,
                                             shim.modules.zlib->module_number);
}

/* What its output handler knows of the response: all words of its globals that are no settings. Its
 * start of a request sets them, and a setting that is set again would reset one of them. */
static size_t find_zlib(own_row *row)
{
    zend_module_entry *zlib = shim.modules.zlib;
    size_t found = 0;

    if (!zlib || !zlib->globals_ptr || !zlib->request_shutdown_func) {
        return 0;
    }
    for (size_t at = 0; at < zlib->globals_size && found < MOST_ZLIB_ROWS; at += sizeof(void *)) {
        char *word = (char *)zlib->globals_ptr + at;
        if (!is_setting(word)) {
            row[found++] = (own_row){word, sizeof(void *), clear, NULL};
        }
    }
    row[0].end = end_zlib;
    return found;
}

/* The function that assert_options() names: the extension's globals begin with it, and are found by
 * a setting that is kept in them. */
static size_t find_assert(own_row *row)
{
    const zend_ini_entry *active =
        zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL("assert.active"));

    if (!active || !active->mh_arg2) {
        return 0;
    }
    *row = (own_row){active->mh_arg2, sizeof(zval), own_begin_copies, own_end_values};
    return 1;
}

/* The extension's globals begin with it. */
static size_t find_first(own_row *row, const char *extension, size_t size,
                         void (*end)(void *at, size_t size))
{
    void *globals = globals_of(extension);

    if (!globals) {
        return 0;
    }
    *row = (own_row){globals, size, clear, end};
    return 1;
}

static size_t find_mysqli(own_row *row)
{
#if __has_include(<ext/mysqli/php_mysqli_structs.h>)
    zend_mysqli_globals *mysqli = globals_of("mysqli");

    if (mysqli) {
        row[0] = (own_row){&mysqli->error_no, sizeof(mysqli->error_no),
                           clear, NULL};
        row[1] = (own_row){&mysqli->error_msg, sizeof(mysqli->error_msg),
                           clear, end_text};
        row[2] = (own_row){&mysqli->report_mode, sizeof(mysqli->report_mode),
                           NULL, NULL};
        return 3;
    }
#endif
    return 0;
}

#if __has_include(<ext/mbstring/mbstring.h>)
/* The order of mb_detect_order(): the list and its length follow one another. */
typedef struct {
    const mbfl_encoding **list;
    size_t count;
} detect_order;

static void begin_detect_order(void *at, size_t size)
{
    detect_order *order = at;
    const size_t bytes = order->count * sizeof(*order->list);

    (void)size;
    if (order->list) {
        order->list = memcpy(emalloc(bytes), order->list, bytes);
    }
}

static void end_detect_order(void *at, size_t size)
{
    detect_order *order = at;

    (void)size;
    if (order->list) {
        efree(order->list);
    }
}

/* What its functions set, what mb_http_input() says, and how far mb_output_handler() has come,
 * which its last call ends. What only settings change has no row: settings are undone and set
 * again. The language has one, because mb_language() with an unknown name makes it neutral and
 * leaves the setting as it is. */
static size_t find_mbstring(own_row *row)
{
    zend_mbstring_globals *mb = globals_of("mbstring");
    size_t found = 0;

    if (!mb) {
        return 0;
    }
#define OWN(field, begin) \
    row[found++] = (own_row){&mb->field, sizeof(mb->field), begin, NULL};
    OWN(current_internal_encoding, NULL)
    OWN(current_http_output_encoding, NULL)
    OWN(http_input_identify, clear)
    OWN(http_input_identify_get, clear)
    OWN(http_input_identify_post, clear)
    OWN(http_input_identify_cookie, clear)
    OWN(http_input_identify_string, clear)
    OWN(current_filter_illegal_mode, NULL)
    OWN(current_filter_illegal_substchar, NULL)
    OWN(language, NULL)
    OWN(illegalchars, clear)
    row[found++] = (own_row){&mb->current_detect_order_list, sizeof(detect_order),
                             begin_detect_order, end_detect_order};
    row[found++] = COMPAT_MB_OUTPUT_ROW(mb);
    if (shim.modules.mbstring->globals_size == sizeof(*mb)) {
        /* Otherwise its regular expressions are left out, and these are elsewhere. */
        OWN(internal_encoding_set, NULL)
        OWN(http_output_set, NULL)
        OWN(http_input_set, NULL)
    }
#undef OWN
    return found;
}
#else
static size_t find_mbstring(own_row *row)
{
    (void)row;
    return 0;
}
#endif

/* ext/filter's copy of the request's input, which filter_input() reads. The extension's globals are
 * not declared to PHP, but its setting `filter.default` refers to them. */
static size_t find_filter(own_row *row)
{
    zend_filter_globals *filter = shim.filter_default ? shim.filter_default->mh_arg2 : NULL;

    if (!filter) {
        return 0;
    }
    *row = (own_row){&filter->post_array, offsetof(zend_filter_globals, default_filter),
                     own_begin_values, own_end_values};
    return 1;
}

size_t own_extensions_find(own_row rows[MOST_EXTENSION_ROWS])
{
    own_row *next = rows;

    next += find_date(next);
    next += find_xml(next);
    next += find_imap(next);
    next += find_mysqli(next);
    next += find_mbstring(next);
    next += find_filter(next);
    next += find_zlib(next);
    next += find_assert(next);
    next += find_first(next, "posix", sizeof(int), NULL);
    next += find_first(next, "sockets", sizeof(int), NULL);
    next += find_first(next, "openssl", sizeof(void *), end_openssl_errors);
    return (size_t)(next - rows);
}
