/* What PHP keeps once for a process and async mode keeps for each request.
 *
 * Two tables. A row of the first is memory of the engine that is exchanged: while a request runs,
 * its values are in place and the script's are kept; while it does not run, the other way round. A
 * request begins with the script's values, of which `begin` makes its own copy where they are more
 * than numbers, and `end` frees what it leaves.
 *
 * A row of the second is state that cannot be exchanged as memory, because it is in the kernel, in
 * libc, or reaches into other variables by callbacks. It is looked at when a request goes, put back
 * to the script's by what worker mode puts back between two requests, and set again when the
 * request comes back. A request that has changed nothing of it pays a comparison.
 *
 * The script's state does not change while its loop runs: no code of the script does.
 */
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "own_state.h"
#include "encodings.h"
#include "libraries.h"
#include "reset.h"
#include "syscall_cache.h"

/* ---- memory that is exchanged ---- */

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

typedef struct {
    php_random_status_state_mt19937 numbers;
    bool is_seeded;
} mt_state;

struct own_state {
    HashTable *settings; /* those that this request has changed; NULL: none */
    int directory;       /* -1: the script's */
    int umask;           /* -1: the script's */
    char *locale;        /* NULL: the script's */
    zend_string *ctype;
    HashTable *environment; /* what it has put there; NULL: nothing */
    zval *encodings;        /* NULL: the script's */
    mt_state *random;       /* NULL: it has not seeded mt_rand(), and draws what all do */
    bool has_xml_errors;    /* it has said what becomes of errors of libxml */
    bool keeps_xml_errors;
    zval variables[VARIABLES];
    char memory[];
};

static void exchange(void *a, void *b, size_t size)
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
#define EACH_ROW(state, row, kept)                                                  \
    char *kept = (state)->memory;                                                   \
    for (const memory_row *row = learned.rows; row < learned.rows + learned.row_count; \
         kept += padded(row->size), row++)

/* Its place in the symbol table; made, if somebody has removed it. */
static zval *variable(size_t n)
{
    zval *place = zend_hash_lookup(&EG(symbol_table), learned.variables[n]);

    return Z_TYPE_P(place) == IS_INDIRECT ? Z_INDIRECT_P(place) : place;
}

static void exchange_memory(own_state *state)
{
    char *const place_of_sessions = PS(save_path);

    EACH_ROW(state, row, kept) {
        exchange(row->at, kept, row->size);
    }
    PS(save_path) = place_of_sessions; /* of all: see reset.c */
    for (size_t i = 0; i < VARIABLES; i++) {
        zval *place = variable(i), here;
        /* Not all bytes: the table's own are behind the value. */
        ZVAL_COPY_VALUE(&here, place);
        ZVAL_COPY_VALUE(place, &state->variables[i]);
        ZVAL_COPY_VALUE(&state->variables[i], &here);
    }
}

/* ---- state that is put back and set again ---- */

static void leave_settings(own_state *state)
{
    const int seconds = serving->seconds_left;

    state->settings = reset_take_settings();
    /* A setting of time limits has set the timer, which is the request's. */
    serving->seconds_left = seconds;
}

static void enter_settings(own_state *state)
{
    const int seconds = serving->seconds_left;

    if (state->settings) {
        reset_give_settings(state->settings);
        state->settings = NULL;
    }
    serving->seconds_left = seconds;
}

static void leave_directory(own_state *state)
{
    if (syscall_cache_directory_moved()) {
        state->directory = (int)syscall(SYS_openat, AT_FDCWD, ".", O_PATH | O_CLOEXEC);
        reset_directory();
    }
}

static void enter_directory(own_state *state)
{
    if (state->directory >= 0) {
        syscall(SYS_fchdir, state->directory);
        syscall_cache_note_directory();
        syscall(SYS_close, state->directory);
        state->directory = -1;
    }
}

static void leave_umask(own_state *state)
{
    if (BG(umask) != -1) {
        state->umask = (int)syscall(SYS_umask, BG(umask));
        BG(umask) = -1;
    }
}

static void enter_umask(own_state *state)
{
    if (state->umask != -1) {
        BG(umask) = (int)syscall(SYS_umask, state->umask);
        state->umask = -1;
    }
}

static void leave_locale(own_state *state)
{
    if (BG(locale_changed)) {
        const char *now = setlocale(LC_ALL, NULL);
        state->locale = now ? strdup(now) : NULL;
        state->ctype = BG(ctype_string) ? zend_string_copy(BG(ctype_string)) : NULL;
        reset_locale();
    }
}

static void enter_locale(own_state *state)
{
    if (state->locale) {
        setlocale(LC_ALL, state->locale);
        zend_update_current_locale();
        if (BG(ctype_string)) {
            zend_string_release(BG(ctype_string));
        }
        BG(ctype_string) = state->ctype;
        BG(locale_changed) = 1;
        free(state->locale);
        state->locale = NULL;
        state->ctype = NULL;
    }
}

/* ---- the environment ---- */

static zend_function *put_environment;

static void leave_environment(own_state *state)
{
    zend_string *name;

    if (zend_hash_num_elements(&BG(putenv_ht)) == 0) {
        return;
    }
    ALLOC_HASHTABLE(state->environment);
    zend_hash_init(state->environment, 8, NULL, ZVAL_PTR_DTOR, 0);
    ZEND_HASH_FOREACH_STR_KEY(&BG(putenv_ht), name) {
        const char *value = getenv(ZSTR_VAL(name));
        zval setting;

        /* Without a value putenv() takes the variable away. */
        ZVAL_STR(&setting, value ? strpprintf(0, "%s=%s", ZSTR_VAL(name), value)
                                 : zend_string_copy(name));
        zend_hash_next_index_insert(state->environment, &setting);
    } ZEND_HASH_FOREACH_END();
    zend_hash_clean(&BG(putenv_ht)); /* which puts back what was there before */
}

static void enter_environment(own_state *state)
{
    zval *setting, result;

    if (!state->environment) {
        return;
    }
    ZEND_HASH_FOREACH_VAL(state->environment, setting) {
        ZVAL_UNDEF(&result);
        zend_call_known_function(put_environment, NULL, NULL, &result, 1, setting, NULL);
    } ZEND_HASH_FOREACH_END();
    zend_hash_destroy(state->environment);
    FREE_HASHTABLE(state->environment);
    state->environment = NULL;
}

/* ---- encodings ---- */

static void leave_encodings(own_state *state)
{
    state->encodings = encodings_take();
}

static void enter_encodings(own_state *state)
{
    if (state->encodings) {
        encodings_give(state->encodings);
        state->encodings = NULL;
    }
}

/* ---- mt_rand() ---- */

static void exchange_random(own_state *state)
{
    if (state->random) {
        exchange(COMPAT_MT_STATE, &state->random->numbers, sizeof(state->random->numbers));
        exchange(&RANDOM_G(mt19937_seeded), &state->random->is_seeded, sizeof(bool));
    }
}

/* Before it seeds: what all draw from is kept. */
static void note_seed(void)
{
    own_state *state = serving->own;

    if (state && !state->random) {
        state->random = emalloc(sizeof(*state->random));
        memcpy(&state->random->numbers, COMPAT_MT_STATE, sizeof(state->random->numbers));
        state->random->is_seeded = RANDOM_G(mt19937_seeded);
    }
}

static void end_random(own_state *state)
{
    if (state->random) {
        exchange_random(state);
        efree(state->random);
        state->random = NULL;
    }
}

/* ---- errors of libxml ---- */

static zend_function *xml_errors;

static void keep_xml_errors(bool wanted)
{
    zval argument, result;

    ZVAL_BOOL(&argument, wanted);
    ZVAL_UNDEF(&result);
    zend_call_known_function(xml_errors, NULL, NULL, &result, 1, &argument, NULL);
}

/* The request's list of errors is out of reach by now. */
static void leave_xml(own_state *state)
{
    if (state->has_xml_errors) {
        zval result;

        ZVAL_UNDEF(&result);
        zend_call_known_function(xml_errors, NULL, NULL, &result, 0, NULL, NULL);
        state->keeps_xml_errors = Z_TYPE(result) == IS_TRUE;
        keep_xml_errors(false);
    }
}

static void enter_xml(own_state *state)
{
    if (state->has_xml_errors) {
        keep_xml_errors(state->keeps_xml_errors);
    }
}

static void note_xml_errors(void)
{
    if (serving->own) {
        serving->own->has_xml_errors = true;
    }
}

static void end_xml_errors(own_state *state)
{
    if (state->has_xml_errors) {
        keep_xml_errors(false);
        state->has_xml_errors = false;
    }
}

/* ---- functions that are noticed ---- */

#define NOTICED(ROW)                                \
    ROW(mt_srand, note_seed)                        \
    ROW(srand, note_seed)                           \
    ROW(libxml_use_internal_errors, note_xml_errors)

#define NOTICE(function, note)                                \
    static zif_handler real_##function;                       \
    static ZEND_NAMED_FUNCTION(notice_##function)             \
    {                                                         \
        note();                                               \
        real_##function(INTERNAL_FUNCTION_PARAM_PASSTHRU);    \
    }

NOTICED(NOTICE)

static void notice(void)
{
#define STAND_BEFORE(function, note)                                                     \
    if (!real_##function) {                                                              \
        libraries_stand_before(NULL, #function, &real_##function, notice_##function);    \
    }
    NOTICED(STAND_BEFORE)
}

/* ---- the table ---- */

/* `end`: after what worker mode puts back. */
static const struct {
    const char *name;
    void (*leave)(own_state *state), (*enter)(own_state *state), (*end)(own_state *state);
} rest[] = {
    {"settings", leave_settings, enter_settings, NULL},
    {"directory", leave_directory, enter_directory, NULL},
    {"umask", leave_umask, enter_umask, NULL},
    {"locale", leave_locale, enter_locale, NULL},
    {"environment", leave_environment, enter_environment, NULL},
    {"encodings", leave_encodings, enter_encodings, NULL},
    {"random", exchange_random, exchange_random, end_random},
    {"libxml errors", leave_xml, enter_xml, end_xml_errors},
};

enum { REST = sizeof(rest) / sizeof(*rest) };

/* ---- all together ---- */

static void add_row(memory_row row)
{
    learned.rows[learned.row_count++] = row;
}

void own_state_learn(void)
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
        xml_errors = zend_hash_str_find_ptr(CG(function_table),
                                            ZEND_STRL("libxml_use_internal_errors"));
    }
    put_environment = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("putenv"));
    notice();
    learned.size = 0;
    for (size_t i = 0; i < learned.row_count; i++) {
        learned.size += padded(learned.rows[i].size);
    }
    for (size_t i = 0; i < VARIABLES; i++) {
        learned.variables[i] = zend_string_init(variables[i], strlen(variables[i]), 0);
    }
}

void own_state_forget(void)
{
    for (size_t i = 0; i < VARIABLES; i++) {
        zend_string_release(learned.variables[i]);
    }
}

own_state *own_state_make(void)
{
    own_state *state = calloc(1, sizeof(own_state) + learned.size);

    if (state) {
        state->directory = state->umask = -1;
    }
    return state;
}

void own_state_free(own_state *state)
{
    free(state);
}

void own_state_begin(own_state *state)
{
    for (size_t i = 0; i < VARIABLES; i++) {
        zval *place = variable(i);
        ZVAL_COPY_VALUE(&state->variables[i], place);
        if (i == THE_ENVIRONMENT) {
            Z_TRY_ADDREF_P(place);
        } else {
            ZVAL_NULL(place);
        }
    }
    EACH_ROW(state, row, kept) {
        memcpy(kept, row->at, row->size);
        if (row->begin) {
            row->begin(row->at, row->size);
        }
    }
}

/* The memory first: see own_state_enter(). */
void own_state_end(own_state *state)
{
    char *const place_of_sessions = PS(save_path);

    EACH_ROW(state, row, kept) {
        if (row->end) {
            row->end(row->at, row->size);
        }
        memcpy(row->at, kept, row->size);
    }
    PS(save_path) = place_of_sessions;
    for (size_t i = 0; i < VARIABLES; i++) {
        zval *place = variable(i), gone;
        ZVAL_COPY_VALUE(&gone, place);
        ZVAL_COPY_VALUE(place, &state->variables[i]);
        zval_ptr_dtor(&gone);
    }
    reset_restore();
    for (size_t i = 0; i < REST; i++) {
        if (rest[i].end) {
            rest[i].end(state);
        }
    }
}

void own_state_leave(own_state *state)
{
    /* Of each context, and exchanged by the engine: the setting must not change it for whoever
     * comes next. */
    const int level = EG(error_reporting);

    exchange_memory(state);
    for (size_t i = 0; i < REST; i++) {
        rest[i].leave(state);
    }
    EG(error_reporting) = level;
}

/* Settings are changed while the script's memory is in place: an extension refuses to change them
 * when a session is open or headers are sent, which the request's memory would say. So the script's
 * memory has the request's values as long as it is kept, and gets its own back when these are
 * undone while it is in place again. */
void own_state_enter(own_state *state)
{
    const int level = EG(error_reporting);

    for (size_t i = REST; i-- > 0;) {
        rest[i].enter(state);
    }
    exchange_memory(state);
    EG(error_reporting) = level;
    if (zend_atomic_bool_load(&EG(timed_out))) {
        zend_atomic_bool_store(&EG(vm_interrupt), true);
    }
}
