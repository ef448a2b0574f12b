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

#include "async/own_extensions.h"
#include "async/own_memory.h"
#include "soap.h"

/* ---- how a request begins with a value, and what becomes of it ---- */

void own_row_clear(void *at, size_t size)
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

static void end_table(void *at, size_t size)
{
    HashTable *table = *(HashTable **)at;

    (void)size;
    if (table) {
        zend_hash_destroy(table);
        FREE_HASHTABLE(table);
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

#define ROW(place, begin, end) {#place, &place, sizeof(place), begin, end}

static const own_row memory[] = {
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
    ROW(SG(fci_cache), own_row_clear, NULL),

    ROW(PG(tick_functions), begin_list, end_list),
    ROW(PG(http_globals), begin_values, end_values),
    ROW(PG(connection_status), own_row_clear, NULL),
    ROW(PG(header_is_being_sent), own_row_clear, NULL),
    ROW(PG(modules_activated), NULL, NULL),
    ROW(PG(during_request_startup), NULL, NULL),
    ROW(PG(in_user_include), own_row_clear, NULL),
    ROW(PG(in_error_log), own_row_clear, NULL),
    ROW(PG(last_error_type), own_row_clear, NULL),
    ROW(PG(last_error_lineno), own_row_clear, NULL),
    ROW(PG(last_error_message), own_row_clear, end_text),
    ROW(PG(last_error_file), own_row_clear, end_text),

    ROW(EG(user_error_handler), begin_copies, end_values),
    ROW(EG(user_error_handler_error_reporting), NULL, NULL),
    ROW(EG(user_error_handlers), begin_handlers, end_handlers),
    ROW(EG(user_error_handlers_error_reporting), begin_levels, end_levels),
    ROW(EG(user_exception_handler), begin_copies, end_values),
    ROW(EG(user_exception_handlers), begin_handlers, end_handlers),
    ROW(EG(error_handling), own_row_clear, NULL),
    ROW(EG(exception_class), own_row_clear, NULL),
    ROW(EG(exit_status), own_row_clear, NULL),
    ROW(EG(flags), NULL, NULL),
    ROW(EG(fake_scope), own_row_clear, NULL),
    ROW(EG(ticks_count), own_row_clear, NULL),
    ROW(EG(filename_override), NULL, NULL),
    ROW(EG(lineno_override), NULL, NULL),
    ROW(EG(timed_out), own_row_clear, NULL),
    ROW(CG(unclean_shutdown), own_row_clear, NULL),

    ROW(BG(user_shutdown_function_names), own_row_clear, NULL),
    ROW(BG(strtok_string), own_row_clear, end_text),
    ROW(BG(strtok_last), own_row_clear, NULL),
    ROW(BG(strtok_len), own_row_clear, NULL),
    ROW(BG(user_compare_fci), own_row_clear, NULL),
    ROW(BG(user_compare_fci_cache), own_row_clear, NULL),
    ROW(BG(user_tick_functions), own_row_clear, end_ticks),
    ROW(BG(serialize_lock), own_row_clear, NULL),
    ROW(BG(serialize), own_row_clear, NULL),
    ROW(BG(unserialize), own_row_clear, NULL),
    ROW(BG(url_adapt_session_ex), NULL, NULL),
    ROW(BG(url_adapt_output_ex), NULL, NULL),

    ROW(FG(default_context), own_row_clear, end_context),
    ROW(FG(user_stream_current_filename), own_row_clear, NULL),
    ROW(FG(wrapper_errors), own_row_clear, end_table),

    ROW(JSON_G(error_code), own_row_clear, NULL),
    ROW(PCRE_G(error_code), own_row_clear, NULL),

    ROW(ps_globals, begin_session, end_session),

    COMPAT_OWN_ROWS(ROW)
};

enum { MEMORY_ROWS = sizeof(memory) / sizeof(*memory) };

/* Variables of the script's symbol table, whose places stay. */
static const char *const variables[] = {"_GET",    "_POST",  "_COOKIE", "_SERVER",
                                        "_REQUEST", "_FILES", "_ENV",    "_SESSION"};

enum { VARIABLES = sizeof(variables) / sizeof(*variables), THE_ENVIRONMENT = 6 };

enum { SOAP_ROWS = 3, ROWS = MEMORY_ROWS + MOST_EXTENSION_ROWS + SOAP_ROWS };

/* Rows that lie side by side, copied at once. */
typedef struct {
    char *at;
    size_t size;
} stretch;

typedef struct {
    stretch all[ROWS];
    size_t count;
} stretches;

/* Learned when the loop begins, so that a request pays for what it has to do and for no more. */
static struct {
    zend_string *variables[VARIABLES];
    uint32_t places[VARIABLES]; /* in the symbol table, when they were last looked for */
    own_row rows[ROWS];      /* in the order of their addresses, when all are known */
    size_t row_count;
    stretches exchanged, cleared;
    const own_row *steps[ROWS]; /* those with more to do at a begin or an end */
    size_t step_count;
    size_t size; /* of all stretches, as they are kept */
} learned;

struct own_memory {
    zval variables[VARIABLES];
    char kept[];
};

/* ---- copying ---- */

/* Most stretches are a number or a pointer. */
static inline void copy(char *to, const char *from, size_t size)
{
    if (size == sizeof(void *)) {
        memcpy(to, from, sizeof(void *));
    } else if (size == sizeof(int)) {
        memcpy(to, from, sizeof(int));
    } else if (size == 1) {
        *to = *from;
    } else {
        memcpy(to, from, size);
    }
}

void own_memory_swap(void *a, void *b, size_t size)
{
    char *x = a, *y = b, block[512];

    for (size_t part; size > 0; x += part, y += part, size -= part) {
        part = size < sizeof(block) ? size : sizeof(block);
        copy(block, x, part);
        copy(x, y, part);
        copy(y, block, part);
    }
}

static size_t padded(size_t size)
{
    return (size + 7) & ~(size_t)7;
}

/* For each stretch, with the place where its other value is kept. */
#define EACH_STRETCH(own, s, other)                                               \
    char *other = (own)->kept;                                                    \
    for (const stretch *s = learned.exchanged.all;                                \
         s < learned.exchanged.all + learned.exchanged.count; other += padded(s->size), s++)

/* Its place in the symbol table; made, if somebody has removed it. */
static zval *variable(size_t n)
{
    const HashTable *table = &EG(symbol_table);
    const uint32_t known = learned.places[n];
    zval *place = known < table->nNumUsed ? &table->arData[known].val : NULL;

    if (!place || Z_ISUNDEF_P(place) || ((Bucket *)place)->key != learned.variables[n]) {
        place = zend_hash_lookup(&EG(symbol_table), learned.variables[n]);
        learned.places[n] = (uint32_t)((Bucket *)place - table->arData);
    }
    return Z_TYPE_P(place) == IS_INDIRECT ? Z_INDIRECT_P(place) : place;
}

void own_memory_exchange(own_memory *own)
{
    char *const place_of_sessions = PS(save_path);

    EACH_STRETCH(own, s, other) {
        own_memory_swap(s->at, other, s->size);
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

/* ---- learning ---- */

static void add_row(own_row row)
{
    learned.rows[learned.row_count++] = row;
}

static int by_address(const void *a, const void *b)
{
    const char *x = ((const own_row *)a)->at, *y = ((const own_row *)b)->at;

    return (x > y) - (x < y);
}

static void add_to(stretches *list, const own_row *row)
{
    stretch *last = list->count > 0 ? &list->all[list->count - 1] : NULL;

    if (last && last->at + last->size == (char *)row->at) {
        last->size += row->size;
    } else {
        list->all[list->count++] = (stretch){row->at, row->size};
    }
}

/* A client puts them back when its call ends, to what they were when it began: another's. */
static void add_soap(void)
{
    soap_memory *of_soap = soap_find();

    if (of_soap) {
        add_row((own_row)ROW(of_soap->call, NULL, NULL));
        add_row((own_row)ROW(of_soap->of_client, NULL, NULL));
        add_row((own_row)ROW(of_soap->references, NULL, NULL));
    }
}

static void learn_rows(void)
{
    memcpy(learned.rows, memory, sizeof(memory));
    learned.row_count = MEMORY_ROWS + own_extensions_find(learned.rows + MEMORY_ROWS);
    add_soap();
    qsort(learned.rows, learned.row_count, sizeof(*learned.rows), by_address);
}

/* The table's own key. */
static zend_string *key_of(const char *text)
{
    zend_string *name = zend_string_init(text, strlen(text), 0);
    zend_string *key = ((Bucket *)zend_hash_lookup(&EG(symbol_table), name))->key;

    zend_string_addref(key);
    zend_string_release(name);
    return key;
}

void own_memory_learn(void)
{
    memset(&learned, 0, sizeof(learned));
    learn_rows();
    for (size_t i = 0; i < learned.row_count; i++) {
        const own_row *row = &learned.rows[i];

        add_to(&learned.exchanged, row);
        if (row->begin == own_row_clear) {
            add_to(&learned.cleared, row);
        }
        if (row->end || (row->begin && row->begin != own_row_clear)) {
            learned.steps[learned.step_count++] = row;
        }
    }
    for (size_t i = 0; i < learned.exchanged.count; i++) {
        learned.size += padded(learned.exchanged.all[i].size);
    }
    for (size_t i = 0; i < VARIABLES; i++) {
        learned.variables[i] = key_of(variables[i]);
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

/* ---- a request ---- */

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
    EACH_STRETCH(own, s, other) {
        copy(other, s->at, s->size);
    }
    for (size_t i = 0; i < learned.cleared.count; i++) {
        static const char zeros[sizeof(void *)];
        const stretch *s = &learned.cleared.all[i];

        if (s->size <= sizeof(zeros)) {
            copy(s->at, zeros, s->size);
        } else {
            memset(s->at, 0, s->size);
        }
    }
    for (size_t i = 0; i < learned.step_count; i++) {
        const own_row *row = learned.steps[i];

        if (row->begin && row->begin != own_row_clear) {
            row->begin(row->at, row->size);
        }
    }
}

void own_memory_end(own_memory *own)
{
    char *const place_of_sessions = PS(save_path);

    for (size_t i = 0; i < learned.step_count; i++) {
        const own_row *row = learned.steps[i];

        if (row->end) {
            row->end(row->at, row->size);
        }
    }
    EACH_STRETCH(own, s, other) {
        copy(s->at, other, s->size);
    }
    PS(save_path) = place_of_sessions;
    for (size_t i = 0; i < VARIABLES; i++) {
        zval *place = variable(i), gone;
        ZVAL_COPY_VALUE(&gone, place);
        ZVAL_COPY_VALUE(place, &own->variables[i]);
        zval_ptr_dtor(&gone);
    }
}
