/* Memory of the engine and of extensions that each request of async mode has of its own.
 *
 * A row of the table is exchanged: while a request runs, its values are in place and the script's
 * are kept; while it does not run, the other way round. A request begins with the script's values,
 * of which `begin` makes its own copy where they are more than numbers, and `end` frees what it
 * leaves.
 *
 * The script's values do not change while its loop runs: no code of the script does.
 */
#include <stdlib.h>

#include "own_memory.h"

/* ---- how a request begins with a value, and what becomes of it ---- */

static void clear(void *at, size_t size)
{
    memset(at, 0, size);
}

static void begin_values(void *at, size_t size)
{
    for (zval *value = at; (char *)value < (char *)at + size; value++) {
        ZVAL_UNDEF(value);
    }
}

static void begin_copies(void *at, size_t size)
{
    for (zval *value = at; (char *)value < (char *)at + size; value++) {
        Z_TRY_ADDREF_P(value);
    }
}

static void end_values(void *at, size_t size)
{
    for (zval *value = at; (char *)value < (char *)at + size; value++) {
        zval_ptr_dtor(value);
    }
}

static void end_text(void *at, size_t size)
{
    (void)size;
    if (*(zend_string **)at) {
        zend_string_release(*(zend_string **)at);
    }
}

static void begin_output(void *at, size_t size)
{
    (void)at, (void)size;
    php_output_activate();
}

static void end_output(void *at, size_t size)
{
    (void)at, (void)size;
    php_output_deactivate();
}

static void begin_handlers(void *at, size_t size)
{
    zend_stack *stack = at;
    zend_stack of_script = *stack;

    (void)size;
    zend_stack_init(stack, of_script.size);
    for (int i = 0; i < of_script.top; i++) {
        zval copy;
        ZVAL_COPY(&copy, (zval *)of_script.elements + i);
        zend_stack_push(stack, &copy);
    }
}

static void end_handlers(void *at, size_t size)
{
    (void)size;
    zend_stack_clean(at, (void (*)(void *))ZVAL_PTR_DTOR, 1);
    zend_stack_destroy(at);
}

static void begin_levels(void *at, size_t size)
{
    zend_stack *stack = at;
    zend_stack of_script = *stack;

    (void)size;
    zend_stack_init(stack, of_script.size);
    for (int i = 0; i < of_script.top; i++) {
        zend_stack_push(stack, (int *)of_script.elements + i);
    }
}

static void end_levels(void *at, size_t size)
{
    (void)size;
    zend_stack_destroy(at);
}

static void begin_session(void *at, size_t size)
{
    (void)at, (void)size;
    begin_copies(&PS(mod_user_names), sizeof(PS(mod_user_names)));
    ZVAL_UNDEF(&PS(http_session_vars));
    if (PS(mod_user_class_name)) {
        zend_string_addref(PS(mod_user_class_name));
    }
}

static void end_session(void *at, size_t size)
{
    (void)at, (void)size;
    end_values(&PS(mod_user_names), sizeof(PS(mod_user_names)));
    if (PS(mod_user_class_name)) {
        zend_string_release(PS(mod_user_class_name));
    }
}

static void begin_zone(void *at, size_t size)
{
    char **zone = at;

    (void)size;
    *zone = *zone ? estrdup(*zone) : NULL;
}

static void end_zone(void *at, size_t size)
{
    (void)size;
    if (*(char **)at) {
        efree(*(char **)at);
    }
}

static void begin_list(void *at, size_t size)
{
    zend_llist *list = at;

    (void)size;
    zend_llist_init(list, list->size, list->dtor, list->persistent);
}

static void end_list(void *at, size_t size)
{
    (void)size;
    zend_llist_clean(at);
}

static void end_ticks(void *at, size_t size)
{
    zend_llist *functions = *(zend_llist **)at;

    (void)size;
    if (functions) {
        zend_llist_destroy(functions);
        efree(functions);
    }
}

static void end_context(void *at, size_t size)
{
    php_stream_context *context = *(php_stream_context **)at;

    (void)size;
    if (context) {
        zend_list_delete(context->res);
    }
}

/* ext/libxml's own end and start of a request. */
static void end_xml(void *at, size_t size)
{
    zend_module_entry *xml = shim.modules.libxml;

    (void)at, (void)size;
    xml->post_deactivate_func();
    xml->request_startup_func(xml->type, xml->module_number);
}

typedef void (*row_step)(void *at, size_t size);

typedef struct {
    const char *name;
    void *at;
    size_t size;
    row_step begin, end; /* NULL: the script's value serves, and needs no end */
} memory_row;

#define ROW(place, begin, end) {#place, &place, sizeof(place), begin, end}

static const memory_row memory[] = {
    ROW(output_globals, begin_output, end_output),

    ROW(SG(server_context), NULL, NULL),
    ROW(SG(request_info), NULL, NULL),
    ROW(SG(sapi_headers), NULL, NULL),
    ROW(SG(read_post_bytes), NULL, NULL),
    ROW(SG(post_read), NULL, NULL),
    ROW(SG(headers_sent), NULL, NULL),
    ROW(SG(rfc1867_uploaded_files), NULL, NULL),
    ROW(SG(sapi_started), NULL, NULL),
    ROW(SG(global_request_time), NULL, NULL),
    ROW(SG(callback_func), begin_values, end_values),
    ROW(SG(fci_cache), clear, NULL),

    ROW(PG(tick_functions), begin_list, end_list),
    ROW(PG(http_globals), begin_values, end_values),
    ROW(PG(connection_status), clear, NULL),
    ROW(PG(header_is_being_sent), clear, NULL),
    ROW(PG(modules_activated), NULL, NULL),
    ROW(PG(during_request_startup), NULL, NULL),
    ROW(PG(in_user_include), clear, NULL),
    ROW(PG(in_error_log), clear, NULL),
    ROW(PG(last_error_type), clear, NULL),
    ROW(PG(last_error_lineno), clear, NULL),
    ROW(PG(last_error_message), clear, end_text),
    ROW(PG(last_error_file), clear, end_text),

    ROW(EG(user_error_handler), begin_copies, end_values),
    ROW(EG(user_error_handler_error_reporting), NULL, NULL),
    ROW(EG(user_error_handlers), begin_handlers, end_handlers),
    ROW(EG(user_error_handlers_error_reporting), begin_levels, end_levels),
    ROW(EG(user_exception_handler), begin_copies, end_values),
    ROW(EG(user_exception_handlers), begin_handlers, end_handlers),
    ROW(EG(error_handling), clear, NULL),
    ROW(EG(exception_class), clear, NULL),
    ROW(EG(exit_status), clear, NULL),
    ROW(EG(flags), NULL, NULL),
    ROW(EG(fake_scope), clear, NULL),
    ROW(EG(ticks_count), clear, NULL),
    ROW(EG(timed_out), clear, NULL),
    ROW(CG(unclean_shutdown), clear, NULL),

    ROW(BG(user_shutdown_function_names), clear, NULL),
    ROW(BG(strtok_string), clear, end_text),
    ROW(BG(strtok_last), clear, NULL),
    ROW(BG(strtok_len), clear, NULL),
    ROW(BG(user_compare_fci), clear, NULL),
    ROW(BG(user_compare_fci_cache), clear, NULL),
    ROW(BG(user_tick_functions), clear, end_ticks),
    ROW(BG(serialize_lock), clear, NULL),
    ROW(BG(serialize), clear, NULL),
    ROW(BG(unserialize), clear, NULL),
    ROW(BG(url_adapt_session_ex), NULL, NULL),
    ROW(BG(url_adapt_output_ex), NULL, NULL),

    ROW(FG(default_context), clear, end_context),
    ROW(FG(user_stream_current_filename), clear, NULL),

    ROW(JSON_G(error_code), clear, NULL),
    ROW(PCRE_G(error_code), clear, NULL),

    ROW(ps_globals, begin_session, end_session),
};

enum { MEMORY_ROWS = sizeof(memory) / sizeof(*memory) };

/* Variables of the script's symbol table, whose places stay. */
static const char *const variables[] = {"_GET",    "_POST",  "_COOKIE", "_SERVER",
                                        "_REQUEST", "_FILES", "_ENV",    "_SESSION"};

enum { VARIABLES = sizeof(variables) / sizeof(*variables), THE_ENVIRONMENT = 6 };

enum { EXTENSION_ROWS = 2 };

/* Learned when the loop begins. */
static struct {
    zend_string *variables[VARIABLES];
    memory_row rows[MEMORY_ROWS + EXTENSION_ROWS]; /* those above, and of extensions */
    size_t row_count;
    size_t size; /* of all rows together */
} learned;

struct own_memory {
    zval variables[VARIABLES];
    char rows[];
};

void own_memory_swap(void *a, void *b, size_t size)
{
    char *x = a, *y = b, block[256];

    for (size_t part; size > 0; x += part, y += part, size -= part) {
        part = size < sizeof(block) ? size : sizeof(block);
        memcpy(block, x, part);
        memcpy(x, y, part);
        memcpy(y, block, part);
    }
}

static size_t padded(size_t size)
{
    return (size + 15) & ~(size_t)15;
}

/* For each row, with the place where its other value is kept. */
#define EACH_ROW(own, row, kept)                                                    \
    char *kept = (own)->rows;                                                       \
    for (const memory_row *row = learned.rows; row < learned.rows + learned.row_count; \
         kept += padded(row->size), row++)

/* Its place in the symbol table; made, if somebody has removed it. */
static zval *variable(size_t n)
{
    zval *place = zend_hash_lookup(&EG(symbol_table), learned.variables[n]);

    return Z_TYPE_P(place) == IS_INDIRECT ? Z_INDIRECT_P(place) : place;
}

void own_memory_exchange(own_memory *own)
{
    char *const place_of_sessions = PS(save_path);

    EACH_ROW(own, row, kept) {
        own_memory_swap(row->at, kept, row->size);
    }
    PS(save_path) = place_of_sessions; /* of all: see reset.c */
    for (size_t i = 0; i < VARIABLES; i++) {
        zval *place = variable(i), here;
        /* Not all bytes: the table's own are behind the value. */
        ZVAL_COPY_VALUE(&here, place);
        ZVAL_COPY_VALUE(place, &own->variables[i]);
        ZVAL_COPY_VALUE(&own->variables[i], &here);
    }
}

/* ---- all together ---- */

static void add_row(memory_row row)
{
    learned.rows[learned.row_count++] = row;
}

void own_memory_learn(void)
{
    zend_module_entry *date = shim.modules.date;
    zend_module_entry *xml = shim.modules.libxml;

    memcpy(learned.rows, memory, sizeof(memory));
    learned.row_count = MEMORY_ROWS;
    if (date && date->globals_ptr) {
        char **zone = &((zend_date_globals *)date->globals_ptr)->timezone;
        add_row((memory_row){"timezone", zone, sizeof(*zone), begin_zone, end_zone});
    }
    if (xml && xml->globals_ptr && xml->post_deactivate_func && xml->request_startup_func) {
        add_row((memory_row){"libxml", xml->globals_ptr, xml->globals_size, clear, end_xml});
    }
    learned.size = 0;
    for (size_t i = 0; i < learned.row_count; i++) {
        learned.size += padded(learned.rows[i].size);
    }
    for (size_t i = 0; i < VARIABLES; i++) {
        learned.variables[i] = zend_string_init(variables[i], strlen(variables[i]), 0);
    }
}

void own_memory_forget(void)
{
    for (size_t i = 0; i < VARIABLES; i++) {
        zend_string_release(learned.variables[i]);
    }
}

own_memory *own_memory_make(void)
{
    return calloc(1, sizeof(own_memory) + learned.size);
}

void own_memory_free(own_memory *own)
{
    free(own);
}

void own_memory_begin(own_memory *own)
{
    for (size_t i = 0; i < VARIABLES; i++) {
        zval *place = variable(i);
        ZVAL_COPY_VALUE(&own->variables[i], place);
        if (i == THE_ENVIRONMENT) {
            Z_TRY_ADDREF_P(place);
        } else {
            ZVAL_NULL(place);
        }
    }
    EACH_ROW(own, row, kept) {
        memcpy(kept, row->at, row->size);
        if (row->begin) {
            row->begin(row->at, row->size);
        }
    }
}

void own_memory_end(own_memory *own)
{
    char *const place_of_sessions = PS(save_path);

    EACH_ROW(own, row, kept) {
        if (row->end) {
            row->end(row->at, row->size);
        }
        memcpy(row->at, kept, row->size);
    }
    PS(save_path) = place_of_sessions;
    for (size_t i = 0; i < VARIABLES; i++) {
        zval *place = variable(i), gone;
        ZVAL_COPY_VALUE(&gone, place);
        ZVAL_COPY_VALUE(place, &own->variables[i]);
        zval_ptr_dtor(&gone);
    }
}
