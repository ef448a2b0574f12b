/* Rows of own_memory.c for extensions, which are found when the loop begins.
 *
 * Three have no header for their globals, but these begin with what is theirs, in all versions of
 * PHP: two with the number of the last error, one with a list of errors.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include <ext/date/lib/timelib.h>

#include "async/own_extensions.h"

#if __has_include(<ext/mysqli/php_mysqli_structs.h>)
#include <ext/mysqli/php_mysqli_structs.h>
#endif
#if __has_include(<ext/mbstring/mbstring.h>)
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

/* ext/libxml's own end and start of a request, if it has made anything of what was cleared. */
static void end_xml(void *at, size_t size)
{
    const char *const bytes = at;
    zend_module_entry *xml = shim.modules.libxml;

    if (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0) {
        return;
    }
    xml->post_deactivate_func();
    xml->request_startup_func(xml->type, xml->module_number);
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

    if (!xml || !xml->globals_ptr || !xml->post_deactivate_func || !xml->request_startup_func) {
        return 0;
    }
    row[found++] = (own_row){xml->globals_ptr, xml->globals_size, clear, end_xml};
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

/* How far mb_output_handler() has come, which its last call ends. */
static size_t find_mbstring(own_row *row)
{
#if __has_include(<ext/mbstring/mbstring.h>)
    zend_mbstring_globals *mbstring = globals_of("mbstring");

    if (mbstring) {
        *row = COMPAT_MB_OUTPUT_ROW(mbstring);
        return 1;
    }
#endif
    return 0;
}

size_t own_extensions_find(own_row rows[MOST_EXTENSION_ROWS])
{
    own_row *next = rows;

    next += find_date(next);
    next += find_xml(next);
    next += find_imap(next);
    next += find_mysqli(next);
    next += find_mbstring(next);
    next += find_first(next, "posix", sizeof(int), NULL);
    next += find_first(next, "sockets", sizeof(int), NULL);
    next += find_first(next, "openssl", sizeof(void *), end_openssl_errors);
    return (size_t)(next - rows);
}
