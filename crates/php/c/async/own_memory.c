/* Memory of the engine and of extensions that each request of async mode has of its own.
 *
 * The rows of the table are either those of one request, which runs, or the script's, in between.
 * A request begins with the script's values, of which `begin` makes its own copy where they are
 * more than numbers, and `end` frees what it leaves.
 *
 * Each request pays for all rows, so what is done to them is written out by the preprocessor, row
 * by row: to the compiler their places and sizes are constants, and most are copied by two
 * instructions.
 */
#include <stdlib.h>

#include "async/own_memory.h"
#include "async/own_extensions.h"
#include "async/own_values.h"
#include "ground/soap.h"

/* It begins with the script's; and there is nothing to free. */
static inline void nothing(void *at, size_t size)
{
    (void)at, (void)size;
}

static inline void clear(void *at, size_t size)
{
    memset(at, 0, size);
}

/* The output is the last: what ends before it may still print. */
#define ROWS(ROW)                                                                               \
    ROW(SG(server_context), nothing, nothing)                                                   \
    ROW(SG(request_info), nothing, nothing)                                                     \
    ROW(SG(sapi_headers), nothing, nothing)                                                     \
    ROW(SG(read_post_bytes), nothing, nothing)                                                  \
    ROW(SG(post_read), nothing, nothing)                                                        \
    ROW(SG(headers_sent), nothing, nothing)                                                     \
    ROW(SG(rfc1867_uploaded_files), nothing, nothing)                                           \
    ROW(SG(sapi_started), nothing, nothing)                                                     \
    ROW(SG(global_request_time), nothing, nothing)                                              \
    ROW(SG(callback_func), own_begin_values, own_end_values)                                    \
    ROW(SG(fci_cache), clear, nothing)                                                          \
                                                                                                \
    ROW(PG(tick_functions), own_begin_list, own_end_list)                                       \
    ROW(PG(http_globals), own_begin_values, own_end_values)                                     \
    ROW(PG(rfc1867_protected_variables), clear, nothing)                                        \
    ROW(PG(connection_status), clear, nothing)                                                  \
    ROW(PG(header_is_being_sent), clear, nothing)                                               \
    ROW(PG(modules_activated), nothing, nothing)                                                \
    ROW(PG(during_request_startup), nothing, nothing)                                           \
    ROW(PG(in_user_include), clear, nothing)                                                    \
    ROW(PG(in_error_log), clear, nothing)                                                       \
    ROW(PG(php_sys_temp_dir), clear, own_end_text)                                              \
    ROW(PG(last_error_type), clear, nothing)                                                    \
    ROW(PG(last_error_lineno), clear, nothing)                                                  \
    ROW(PG(last_error_message), clear, own_end_string)                                          \
    ROW(PG(last_error_file), clear, own_end_string)                                             \
                                                                                                \
    ROW(EG(user_error_handler), own_begin_copies, own_end_values)                               \
    ROW(EG(user_error_handler_error_reporting), nothing, nothing)                               \
    ROW(EG(user_error_handlers), own_begin_handlers, own_end_handlers)                          \
    ROW(EG(user_error_handlers_error_reporting), own_begin_levels, own_end_levels)              \
    ROW(EG(user_exception_handler), own_begin_copies, own_end_values)                           \
    ROW(EG(user_exception_handlers), own_begin_handlers, own_end_handlers)                      \
    ROW(EG(error_handling), clear, nothing)                                                     \
    ROW(EG(exception_class), clear, nothing)                                                    \
    ROW(EG(exit_status), clear, nothing)                                                        \
    ROW(EG(flags), nothing, nothing)                                                            \
    ROW(EG(fake_scope), clear, nothing)                                                         \
    ROW(EG(ticks_count), clear, nothing)                                                        \
    ROW(EG(filename_override), nothing, nothing)                                                \
    ROW(EG(lineno_override), nothing, nothing)                                                  \
    ROW(EG(timed_out), clear, nothing)                                                          \
    ROW(EG(timeout_seconds), nothing, nothing)                                                  \
    ROW(CG(unclean_shutdown), clear, nothing)                                                   \
                                                                                                \
    ROW(BG(user_shutdown_function_names), clear, nothing)                                       \
    ROW(BG(strtok_string), clear, own_end_string)                                               \
    ROW(BG(strtok_last), clear, nothing)                                                        \
    ROW(BG(strtok_len), clear, nothing)                                                         \
    ROW(BG(user_compare_fci), clear, nothing)                                                   \
    ROW(BG(user_compare_fci_cache), clear, nothing)                                             \
    ROW(BG(user_tick_functions), clear, own_end_ticks)                                          \
    ROW(BG(serialize_lock), clear, nothing)                                                     \
    ROW(BG(serialize), clear, nothing)                                                          \
    ROW(BG(unserialize), clear, nothing)                                                        \
    ROW(BG(url_adapt_session_ex), nothing, nothing)                                             \
    ROW(BG(url_adapt_output_ex), nothing, nothing)                                              \
                                                                                                \
    ROW(FG(default_context), clear, own_end_context)                                            \
    ROW(FG(user_stream_current_filename), clear, nothing)                                       \
    ROW(FG(wrapper_errors), clear, own_end_table)                                               \
    ROW(FG(pclose_ret), nothing, nothing)                                                       \
    ROW(FG(pclose_wait), nothing, nothing)                                                      \
    ROW(FG(tmp_host_info), clear, nothing)                                                      \
    ROW(FG(tmp_host_buf), clear, own_end_memory)                                                \
    ROW(FG(tmp_host_buf_len), clear, nothing)                                                   \
                                                                                                \
    ROW(JSON_G(error_code), clear, nothing)                                                     \
    ROW(PCRE_G(error_code), clear, nothing)                                                     \
                                                                                                \
    ROW(ps_globals, own_begin_session, own_end_session)                                         \
                                                                                                \
    COMPAT_OWN_ROWS(ROW)                                                                        \
    COMPAT_STACK_ROW(ROW)                                                                       \
    COMPAT_OOM_ROW(ROW)                                                                         \
    ROW(output_globals, own_begin_output, own_end_output)

/* Variables of the script's symbol table, whose places stay. */
static const char *const variables[] = {"_GET",    "_POST",  "_COOKIE", "_SERVER",
                                        "_REQUEST", "_FILES", "_ENV",    "_SESSION"};

enum { VARIABLES = sizeof(variables) / sizeof(*variables), THE_ENVIRONMENT = 6, THE_SESSION };

#define ADD_SIZE(place, begin, end) +sizeof(place)

enum { SIZE = 0 ROWS(ADD_SIZE), SOAP_ROWS = 3, MOST_FOUND = MOST_EXTENSION_ROWS + SOAP_ROWS };

/* Values that are not in place. */
struct own_memory {
    zval variables[VARIABLES];
    char rows[SIZE];
    char found[]; /* what `learned.rows` are of */
};

/* Learned when the loop begins. */
static struct {
    zend_string *variables[VARIABLES];
    uint32_t places[VARIABLES]; /* in the symbol table, when they were last looked for */
    own_row rows[MOST_FOUND];   /* of extensions, whose memory no header describes */
    size_t row_count;
    size_t size; /* of these rows */
    own_memory *script; /* its values while a request runs */
} learned;

#define EACH_FOUND(row) \
    for (const own_row *row = learned.rows; row < learned.rows + learned.row_count; row++)

/* Looks for its place in the symbol table anew. NULL: a script has unset it. */
static Bucket *find_variable(size_t n)
{
    Bucket *place = (Bucket *)zend_hash_find_known_hash(&EG(symbol_table), learned.variables[n]);

    if (place) {
        learned.places[n] = (uint32_t)(place - EG(symbol_table).arData);
    }
    return place;
}

static inline Bucket *variable(size_t n)
{
    const HashTable *table = &EG(symbol_table);
    Bucket *place = table->arData + learned.places[n];

    if (UNEXPECTED(learned.places[n] >= table->nNumUsed || Z_ISUNDEF(place->val) ||
                   place->key != learned.variables[n])) {
        place = find_variable(n);
    }
    return place;
}

static inline zval *value_of(Bucket *place)
{
    return Z_TYPE(place->val) == IS_INDIRECT ? Z_INDIRECT(place->val) : &place->val;
}

/* Not all bytes of a value: the table's own are behind it. Undefined: it is unset. */
static inline void take_variable(size_t n, zval *value)
{
    Bucket *place = variable(n);

    if (EXPECTED(place)) {
        ZVAL_COPY_VALUE(value, value_of(place));
    } else {
        ZVAL_UNDEF(value);
    }
}

static void unset_variable(size_t n)
{
    Bucket *place = variable(n);

    if (place) {
        ZVAL_NULL(value_of(place));
        zend_hash_del_ind(&EG(symbol_table), learned.variables[n]);
    }
}

/* In the place of one that was taken. */
static inline void put_variable(size_t n, const zval *value)
{
    Bucket *place;

    if (UNEXPECTED(Z_ISUNDEF_P(value))) {
        unset_variable(n);
        return;
    }
    place = variable(n);
    if (UNEXPECTED(!place)) {
        place = (Bucket *)zend_hash_lookup(&EG(symbol_table), learned.variables[n]);
    }
    ZVAL_COPY_VALUE(value_of(place), value);
}

/* ---- taking out what is in place, and putting back what was ---- */

/* Most of those that are found are a number or a pointer. */
static inline void copy(void *to, const void *from, size_t size)
{
    if (size == sizeof(void *)) {
        memcpy(to, from, sizeof(void *));
    } else if (size == sizeof(int)) {
        memcpy(to, from, sizeof(int));
    } else {
        memcpy(to, from, size);
    }
}

#define TAKE_OUT(place, begin, end)      \
    memcpy(at, &(place), sizeof(place)); \
    at += sizeof(place);

static void take_out(own_memory *values)
{
    char *at = values->rows;

    ROWS(TAKE_OUT)
    at = values->found;
    EACH_FOUND(row) {
        copy(at, row->at, row->size);
        at += row->size;
    }
}

#define PUT_BACK(place, begin, end)      \
    memcpy(&(place), at, sizeof(place)); \
    at += sizeof(place);

static void put_back(const own_memory *values)
{
    __typeof__(PS(save_path)) const place_of_sessions = PS(save_path);
    const char *at = values->rows;

    ROWS(PUT_BACK)
    PS(save_path) = place_of_sessions; /* of all: see reset.c */
    at = values->found;
    EACH_FOUND(row) {
        copy(row->at, at, row->size);
        at += row->size;
    }
}

static void exchange(own_memory *gone, const own_memory *come)
{
    take_out(gone);
    put_back(come);
    for (size_t i = 0; i < VARIABLES; i++) {
        take_variable(i, &gone->variables[i]);
        put_variable(i, &come->variables[i]);
    }
}

void own_memory_leave(own_memory *own)
{
    exchange(own, learned.script);
}

void own_memory_enter(const own_memory *own)
{
    exchange(learned.script, own);
}

/* ---- learning ---- */

static void add_row(void *at, size_t size)
{
    learned.rows[learned.row_count++] = (own_row){at, size, NULL, NULL};
}

/* A client puts them back when its call ends, to what they were when it began: another's. */
static void add_soap(void)
{
    soap_memory *of_soap = soap_find();

    if (of_soap) {
        add_row(&of_soap->type_map, SOAP_CALL_SIZE);
        add_row(&of_soap->of_client, sizeof(of_soap->of_client));
        add_row(&of_soap->references, sizeof(of_soap->references));
    }
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

bool own_memory_learn(void)
{
    memset(&learned, 0, sizeof(learned));
    learned.row_count = own_extensions_find(learned.rows);
    add_soap();
    EACH_FOUND(row) {
        learned.size += row->size;
    }
    for (size_t i = 0; i < VARIABLES; i++) {
        learned.variables[i] = key_of(variables[i]);
    }
    learned.script = own_memory_make();
    return learned.script != NULL;
}

void own_memory_forget(void)
{
    for (size_t i = 0; i < VARIABLES; i++) {
        zend_string_release(learned.variables[i]);
    }
    own_memory_free(learned.script);
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

#define BEGIN(place, begin, end) begin(&(place), sizeof(place));

void own_memory_begin(void)
{
    take_out(learned.script);
    for (size_t i = 0; i < VARIABLES; i++) {
        zval *of_script = &learned.script->variables[i], none;
        take_variable(i, of_script);
        if (i == THE_ENVIRONMENT) {
            Z_TRY_ADDREF_P(of_script);
        } else {
            ZVAL_NULL(&none);
            if (i == THE_SESSION) {
                ZVAL_UNDEF(&none); /* until the request has one */
            }
            put_variable(i, &none);
        }
    }
    ROWS(BEGIN)
    EACH_FOUND(row) {
        if (row->begin) {
            row->begin(row->at, row->size);
        }
    }
}

#define END(place, begin, end) end(&(place), sizeof(place));

static void end_values_of_request(void)
{
    for (size_t i = 0; i < VARIABLES; i++) {
        zval gone, none;
        ZVAL_NULL(&none);
        take_variable(i, &gone);
        put_variable(i, &none);
        zval_ptr_dtor(&gone);
    }
    EACH_FOUND(row) {
        if (row->end) {
            row->end(row->at, row->size);
        }
    }
    ROWS(END)
}

/* After a jump the rest of the request's values is lost, and the script has its own all the same.
 * So is what a destructor has put into a variable that had ended. */
bool own_memory_end(void)
{
    zend_execute_data *frame = EG(current_execute_data);
    volatile bool whole = true;

    zend_try {
        end_values_of_request();
    } zend_catch {
        whole = false;
    } zend_end_try();
    EG(current_execute_data) = frame;
    put_back(learned.script);
    for (size_t i = 0; i < VARIABLES; i++) {
        put_variable(i, &learned.script->variables[i]);
    }
    return whole;
}
