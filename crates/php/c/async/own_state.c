/* What PHP keeps once for a process and async mode keeps for each request.
 *
 * Most of it is memory, which own_memory.c exchanges. A row of the table here is state that cannot
 * be exchanged as memory, because it is in the kernel, in libc, or reaches into other variables by
 * callbacks. It is looked at when a request goes, put back to the script's by what worker mode puts
 * back between two requests, and set again when the request comes back. A request that has changed
 * nothing of it pays a comparison.
 */
#include <stdlib.h>

#include "async/own_state.h"
#include "async/own_connections.h"
#include "async/own_loops.h"
#include "async/own_memory.h"
#include "async/own_openssl.h"
#include "async/own_process.h"
#include "async/own_settings.h"
#include "cycle/reset.h"
#include "cycle/session.h"
#include "cycle/superglobals.h"
#include "ground/critical_section.h"
#include "ground/default_link.h"
#include "ground/encodings.h"
#include "ground/override.h"

typedef struct {
    php_random_status_state_mt19937 numbers;
    bool is_seeded;
} mt_state;

struct own_state {
    own_memory *memory;
    own_connections *connections;
    HashTable *settings; /* those that this request has changed; NULL: none */
    own_process process;
    zval *encodings;        /* NULL: the script's */
    mt_state *random;       /* NULL: it has not seeded mt_rand(), and draws what all do */
    bool has_xml_errors;    /* it has said what becomes of errors of libxml */
    bool keeps_xml_errors;
    uint32_t unnamed; /* see superglobals_unnamed() */
    own_loops loops;
    openssl_queue openssl_errors;
    zend_object *link; /* see default_link.h */
};

static void leave_settings(own_state *state)
{
    const int seconds = serving->seconds_left;
    const session_handler of_script = session_keep_handler();

    state->settings = reset_take_settings();
    critical_section_lift_limit();
    session_put_handler(of_script);
    /* A setting of time limits has set the timer, which is the request's. */
    serving->seconds_left = seconds;
}

static void enter_settings(own_state *state)
{
    const int seconds = serving->seconds_left;

    if (state->settings) {
        const session_handler of_script = session_keep_handler();

        reset_give_settings(state->settings);
        critical_section_lift_limit();
        session_put_handler(of_script);
        state->settings = NULL;
    }
    serving->seconds_left = seconds;
}

/* ---- what own_process.c keeps ---- */

static void leave_process(own_state *state)
{
    own_process_leave(&state->process);
}

static void enter_process(own_state *state)
{
    own_process_enter(&state->process);
}

/* ---- encodings ---- */

static void leave_encodings(own_state *state)
{
    state->encodings = encodings_take();
}

static void leave_encodings_of_settings(own_state *state)
{
    if (state->encodings || state->settings) {
        encodings_restore();
    }
}

static void enter_encodings(own_state *state)
{
    if (state->encodings) {
        encodings_give(state->encodings);
        state->encodings = NULL;
    }
}

/* ---- mt_rand() ---- */

static void keep_random(mt_state *kept)
{
    memcpy(&kept->numbers, COMPAT_MT_STATE, sizeof(kept->numbers));
    kept->is_seeded = RANDOM_G(mt19937_seeded);
}

static void exchange_random(own_state *state)
{
    mt_state here;

    if (state->random) {
        keep_random(&here);
        memcpy(COMPAT_MT_STATE, &state->random->numbers, sizeof(here.numbers));
        RANDOM_G(mt19937_seeded) = state->random->is_seeded;
        *state->random = here;
    }
}

/* Before it seeds: what all draw from is kept. */
static void note_seed(void)
{
    own_state *state = serving->own;

    if (state && !state->random) {
        state->random = emalloc(sizeof(*state->random));
        keep_random(state->random);
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

/* ---- what own_settings.c keeps ---- */

static void leave_library_settings(own_state *state)
{
    (void)state;
    own_settings_leave();
}

static void enter_library_settings(own_state *state)
{
    (void)state;
    own_settings_enter();
}

static void end_library_settings(own_state *state)
{
    (void)state;
    own_settings_end();
}

/* ---- what own_connections.c keeps ---- */

static void exchange_connections(own_state *state)
{
    own_connections_exchange(state->connections);
}

/* ---- event loops of libraries ---- */

static void exchange_loops(own_state *state)
{
    own_loops_exchange(state->loops);
}

static void end_loops(own_state *state)
{
    own_loops_end(state->loops);
}

/* ---- the connection that calls mean which name none ---- */

static void leave_link(own_state *state)
{
    state->link = default_link_take();
}

static void enter_link(own_state *state)
{
    default_link_give(state->link);
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

void own_state_watch(void)
{
#define STAND_BEFORE(function, note) \
    override_function(NULL, #function, &real_##function, notice_##function);
    NOTICED(STAND_BEFORE)
    own_settings_watch();
}

/* ---- errors of OpenSSL ---- */

static void leave_openssl(own_state *state)
{
    own_openssl_leave(&state->openssl_errors);
}

static void enter_openssl(own_state *state)
{
    own_openssl_enter(&state->openssl_errors);
}

static void end_openssl(own_state *state)
{
    (void)state;
    own_openssl_end();
}

/* ---- the table ---- */

/* `end`: after what worker mode puts back. */
static const struct {
    void (*leave)(own_state *state), (*enter)(own_state *state), (*end)(own_state *state);
} rest[] = {
    /* A setting (default_charset) sets encodings, too: they are looked at before it is undone, and
     * set after it is set. */
    {leave_encodings, enter_encodings, NULL},
    {leave_settings, enter_settings, NULL},
    {leave_encodings_of_settings, NULL, NULL},
    {leave_process, enter_process, NULL},
    {exchange_random, exchange_random, end_random},
    {leave_xml, enter_xml, end_xml_errors},
    {leave_library_settings, enter_library_settings, end_library_settings},
    {exchange_connections, exchange_connections, exchange_connections},
    {exchange_loops, exchange_loops, end_loops},
    {leave_link, enter_link, NULL},
    {leave_openssl, enter_openssl, end_openssl},
};

enum { REST = sizeof(rest) / sizeof(*rest) };

/* ---- all together ---- */

bool own_state_learn(void)
{
    own_settings_learn();
    own_loops_begin();
    own_openssl_learn();
    own_process_learn();
    xml_errors = zend_hash_str_find_ptr(CG(function_table),
                                        ZEND_STRL("libxml_use_internal_errors"));
    return own_memory_learn();
}

void own_state_forget(void)
{
    own_memory_forget();
    own_loops_forget();
}

own_state *own_state_make(void)
{
    own_state *state = calloc(1, sizeof(*state));

    if (!state) {
        return NULL;
    }
    state->process.directory = state->process.umask = -1;
    state->memory = own_memory_make();
    state->connections = own_connections_make();
    if (!state->memory || !state->connections) {
        own_state_free(state);
        return NULL;
    }
    return state;
}

void own_state_free(own_state *state)
{
    if (state) {
        if (state->connections) {
            own_connections_free(state->connections);
        }
        own_memory_free(state->memory);
        free(state);
    }
}

void own_state_begin(own_state *state)
{
    critical_section_begin();
    own_memory_begin();
    exchange_connections(state);
    own_loops_exchange(state->loops);
    default_link_give(NULL);
    critical_section_end();
}

/* Half of the state belongs to one request and half to another while it is exchanged, so PHP must
 * report nothing then. error_reporting cannot say so: it is one of the settings that are exchanged,
 * and PHP calls the script's error handler, which is code of PHP, whatever it says. */
typedef struct {
    void (*report)(int type, zend_string *file, const uint32_t line, zend_string *message);
    int of_handler;
} error_reporters;

static void report_nothing(int type, zend_string *file, const uint32_t line, zend_string *message)
{
    (void)type, (void)file, (void)line, (void)message;
}

/* While the script's memory is in place. */
static error_reporters suppress_errors(void)
{
    const error_reporters before = {zend_error_cb, EG(user_error_handler_error_reporting)};

    zend_error_cb = report_nothing;
    EG(user_error_handler_error_reporting) = 0;
    return before;
}

static void report_errors(const error_reporters *before)
{
    zend_error_cb = before->report;
    EG(user_error_handler_error_reporting) = before->of_handler;
}

/* The memory first: see own_state_enter(). */
bool own_state_end(own_state *state)
{
    volatile bool whole = own_memory_end();
    error_reporters before;

    if (EG(exception)) {
        /* An exit() or an exception of a destructor: no request is left for it, and PHP calls no
         * function as long as there is one. */
        zend_clear_exception();
    }
    critical_section_begin();
    before = suppress_errors();
    reset_restore();
    report_errors(&before);
    critical_section_end();
    zend_try {
        for (size_t i = 0; i < REST; i++) {
            if (rest[i].end) {
                rest[i].end(state);
            }
        }
    } zend_catch {
        whole = false;
    } zend_end_try();
    if (EG(exception)) {
        zend_clear_exception();
    }
    return whole;
}

void own_state_leave(own_state *state)
{
    /* The engine keeps error_reporting for each context, so putting the setting back must not
     * change it for the request that runs next. */
    const int level = EG(error_reporting);
    error_reporters before;

    critical_section_begin();
    state->unnamed = superglobals_unnamed();
    own_memory_leave(state->memory);
    before = suppress_errors();
    for (size_t i = 0; i < REST; i++) {
        rest[i].leave(state);
    }
    report_errors(&before);
    php_clear_stat_cache(0, NULL, 0); /* what this request has seen of a file, no other has */
    EG(error_reporting) = level;
    critical_section_end();
}

/* Settings are changed while the script's memory is in place: an extension refuses to change them
 * when a session is open or headers are sent, which the request's memory would say. So the script's
 * memory has the request's values as long as it is kept, and gets its own back when these are
 * undone while it is in place again. */
void own_state_enter(own_state *state)
{
    const int level = EG(error_reporting);
    error_reporters before;

    critical_section_begin();
    before = suppress_errors();
    for (size_t i = REST; i-- > 0;) {
        if (rest[i].enter) {
            rest[i].enter(state);
        }
    }
    report_errors(&before);
    own_memory_enter(state->memory);
    superglobals_catch_up(state->unnamed);
    EG(error_reporting) = level;
    critical_section_end();
    if (zend_atomic_bool_load(&EG(timed_out)) || COMPAT_OUT_OF_MEMORY()) {
        zend_atomic_bool_store(&EG(vm_interrupt), true);
    }
}
