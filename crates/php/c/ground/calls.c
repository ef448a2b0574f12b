/* Counts and times what requests call in databases and in other servers over HTTP.
 *
 * The functions in the tables below get a handler that stands before their own, once, at start-up:
 * so all other functions cost what they did, and these too where calls are not counted. What is
 * counted stands in the request's slot of the queue, in shared memory; the request is the one that
 * is served when the function is called, and again when it returns, so requests of async mode that
 * take turns meanwhile have each their own. A function that throws returns all the same. One that
 * never does, because a fatal error jumps out of it, stays open; the front, which reads the
 * numbers, lets it end with its request.
 */
#include <time.h>

#include "ground/calls.h"
#include "ground/state.h"

typedef enum {
    A_CALL,
    PART_OF_CALLS, /* it takes time for them, and is none itself */
    A_CALL_OF_A_URL /* if one of what it is given is a URL */
} counted_as;

typedef struct {
    const char *class, *name; /* in lower case */
    uint32_t kind;
    counted_as as;
} call_row;

static const call_row rows[] = {
    {"pdo", "query", SHIM_CALL_SQL, A_CALL},
    {"pdo", "exec", SHIM_CALL_SQL, A_CALL},
    {"pdo", "begintransaction", SHIM_CALL_SQL, A_CALL},
    {"pdo", "commit", SHIM_CALL_SQL, A_CALL},
    {"pdo", "rollback", SHIM_CALL_SQL, A_CALL},
    {"pdo", "__construct", SHIM_CALL_SQL, PART_OF_CALLS},
    {"pdo", "connect", SHIM_CALL_SQL, PART_OF_CALLS},
    {"pdo", "prepare", SHIM_CALL_SQL, PART_OF_CALLS},
    {"pdostatement", "execute", SHIM_CALL_SQL, A_CALL},
    {"pdostatement", "nextrowset", SHIM_CALL_SQL, PART_OF_CALLS},

    {"mysqli", "query", SHIM_CALL_SQL, A_CALL},
    {"mysqli", "real_query", SHIM_CALL_SQL, A_CALL},
    {"mysqli", "multi_query", SHIM_CALL_SQL, A_CALL},
    {"mysqli", "execute_query", SHIM_CALL_SQL, A_CALL},
    {"mysqli", "begin_transaction", SHIM_CALL_SQL, A_CALL},
    {"mysqli", "commit", SHIM_CALL_SQL, A_CALL},
    {"mysqli", "rollback", SHIM_CALL_SQL, A_CALL},
    {"mysqli", "__construct", SHIM_CALL_SQL, PART_OF_CALLS},
    {"mysqli", "connect", SHIM_CALL_SQL, PART_OF_CALLS},
    {"mysqli", "real_connect", SHIM_CALL_SQL, PART_OF_CALLS},
    {"mysqli", "prepare", SHIM_CALL_SQL, PART_OF_CALLS},
    {"mysqli", "next_result", SHIM_CALL_SQL, PART_OF_CALLS},
    {"mysqli", "poll", SHIM_CALL_SQL, PART_OF_CALLS},
    {"mysqli", "reap_async_query", SHIM_CALL_SQL, PART_OF_CALLS},
    {"mysqli_stmt", "execute", SHIM_CALL_SQL, A_CALL},
    {"mysqli_stmt", "prepare", SHIM_CALL_SQL, PART_OF_CALLS},
    {NULL, "mysqli_query", SHIM_CALL_SQL, A_CALL},
    {NULL, "mysqli_real_query", SHIM_CALL_SQL, A_CALL},
    {NULL, "mysqli_multi_query", SHIM_CALL_SQL, A_CALL},
    {NULL, "mysqli_execute_query", SHIM_CALL_SQL, A_CALL},
    {NULL, "mysqli_begin_transaction", SHIM_CALL_SQL, A_CALL},
    {NULL, "mysqli_commit", SHIM_CALL_SQL, A_CALL},
    {NULL, "mysqli_rollback", SHIM_CALL_SQL, A_CALL},
    {NULL, "mysqli_connect", SHIM_CALL_SQL, PART_OF_CALLS},
    {NULL, "mysqli_real_connect", SHIM_CALL_SQL, PART_OF_CALLS},
    {NULL, "mysqli_prepare", SHIM_CALL_SQL, PART_OF_CALLS},
    {NULL, "mysqli_next_result", SHIM_CALL_SQL, PART_OF_CALLS},
    {NULL, "mysqli_poll", SHIM_CALL_SQL, PART_OF_CALLS},
    {NULL, "mysqli_reap_async_query", SHIM_CALL_SQL, PART_OF_CALLS},
    {NULL, "mysqli_stmt_execute", SHIM_CALL_SQL, A_CALL},
    {NULL, "mysqli_execute", SHIM_CALL_SQL, A_CALL},
    {NULL, "mysqli_stmt_prepare", SHIM_CALL_SQL, PART_OF_CALLS},

    {NULL, "pg_query", SHIM_CALL_SQL, A_CALL},
    {NULL, "pg_exec", SHIM_CALL_SQL, A_CALL},
    {NULL, "pg_query_params", SHIM_CALL_SQL, A_CALL},
    {NULL, "pg_execute", SHIM_CALL_SQL, A_CALL},
    {NULL, "pg_send_query", SHIM_CALL_SQL, A_CALL},
    {NULL, "pg_send_query_params", SHIM_CALL_SQL, A_CALL},
    {NULL, "pg_send_execute", SHIM_CALL_SQL, A_CALL},
    {NULL, "pg_insert", SHIM_CALL_SQL, A_CALL},
    {NULL, "pg_select", SHIM_CALL_SQL, A_CALL},
    {NULL, "pg_update", SHIM_CALL_SQL, A_CALL},
    {NULL, "pg_delete", SHIM_CALL_SQL, A_CALL},
    {NULL, "pg_copy_from", SHIM_CALL_SQL, A_CALL},
    {NULL, "pg_copy_to", SHIM_CALL_SQL, A_CALL},
    {NULL, "pg_connect", SHIM_CALL_SQL, PART_OF_CALLS},
    {NULL, "pg_pconnect", SHIM_CALL_SQL, PART_OF_CALLS},
    {NULL, "pg_prepare", SHIM_CALL_SQL, PART_OF_CALLS},
    {NULL, "pg_send_prepare", SHIM_CALL_SQL, PART_OF_CALLS},
    {NULL, "pg_get_result", SHIM_CALL_SQL, PART_OF_CALLS},

    {"sqlite3", "query", SHIM_CALL_SQL, A_CALL},
    {"sqlite3", "querysingle", SHIM_CALL_SQL, A_CALL},
    {"sqlite3", "exec", SHIM_CALL_SQL, A_CALL},
    {"sqlite3", "prepare", SHIM_CALL_SQL, PART_OF_CALLS},
    {"sqlite3stmt", "execute", SHIM_CALL_SQL, A_CALL},

    {NULL, "curl_exec", SHIM_CALL_HTTP, A_CALL},
    /* Each handle is one, and all that are under way wait together. */
    {NULL, "curl_multi_add_handle", SHIM_CALL_HTTP, A_CALL},
    {NULL, "curl_multi_exec", SHIM_CALL_HTTP, PART_OF_CALLS},
    {NULL, "curl_multi_select", SHIM_CALL_HTTP, PART_OF_CALLS},
    {"soapclient", "__dorequest", SHIM_CALL_HTTP, A_CALL},
    /* They read all of the response; what only opens a stream is counted where it is opened. */
    {NULL, "file_get_contents", SHIM_CALL_HTTP, A_CALL_OF_A_URL},
    {NULL, "file", SHIM_CALL_HTTP, A_CALL_OF_A_URL},
    {NULL, "readfile", SHIM_CALL_HTTP, A_CALL_OF_A_URL},
    {NULL, "copy", SHIM_CALL_HTTP, A_CALL_OF_A_URL},
};

enum { ROWS = sizeof(rows) / sizeof(*rows) };

/* What stands in the functions' place for it. */
typedef struct {
    const call_row *row;
    zif_handler original;
} counted_function;

/* PHP's own wrappers, with openers of ours. */
typedef struct {
    const char *const protocol;
    php_stream_wrapper wrapper;
    php_stream_wrapper_ops operations;
    const php_stream_wrapper_ops *original; /* NULL: this PHP has none */
} counted_wrapper;

static struct {
    int place; /* in functions */
    counted_wrapper wrappers[2];
} calls = {-1, {{.protocol = "http"}, {.protocol = "https"}}};

/* ---- counting ---- */

typedef struct {
    shim_calls *request; /* NULL: none */
    uint32_t kind;
    uint64_t since;
} open_call;

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static shim_calls *calls_of_request(void)
{
    return serving->request && !shim.is_copy ? serving->request->calls : NULL;
}

static open_call begin(uint32_t kind, uint32_t count)
{
    open_call call = {calls_of_request(), kind, now()};

    if (call.request) {
        shim_call_sum *sum = &call.request->sum[kind];
        sum->count += count;
        sum->time -= call.since;
        sum->open += 1;
        call.request->latest = call.since;
        call.request->latest_kind = kind;
    }
    return call;
}

static void end(const open_call *call)
{
    const uint64_t until = now(), took = until - call->since;

    /* Its response may be complete by now: then the slot is another request's. */
    if (!call->request || call->request != calls_of_request()) {
        return;
    }
    call->request->sum[call->kind].open -= 1;
    call->request->sum[call->kind].time += until;
    if (took > call->request->longest) {
        call->request->longest = took;
        call->request->longest_kind = call->kind;
    }
    if (call->request->latest == call->since) {
        call->request->latest = 0;
    }
}

static bool is_url(const zval *given)
{
    ZVAL_DEREF(given);
    return Z_TYPE_P(given) == IS_STRING &&
           (strncasecmp(Z_STRVAL_P(given), ZEND_STRL("http://")) == 0 ||
            strncasecmp(Z_STRVAL_P(given), ZEND_STRL("https://")) == 0);
}

static bool is_counted(const call_row *row, zend_execute_data *call)
{
    const uint32_t given = ZEND_CALL_NUM_ARGS(call);

    return row->as != A_CALL_OF_A_URL || (given > 0 && is_url(ZEND_CALL_ARG(call, 1))) ||
           (given > 1 && is_url(ZEND_CALL_ARG(call, 2)));
}

static const counted_function *function_of(const zend_execute_data *call)
{
    return call->func->internal_function.reserved[calls.place];
}

static void count_and_call(INTERNAL_FUNCTION_PARAMETERS)
{
    const counted_function *function = function_of(execute_data);
    open_call call;

    if (!is_counted(function->row, execute_data)) {
        function->original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
        return;
    }
    call = begin(function->row->kind, function->row->as != PART_OF_CALLS);
    function->original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    end(&call);
}

/* Whether the function of PHP that runs counts what it opens. */
static bool is_counted_by_caller(void)
{
    zend_execute_data *frame = EG(current_execute_data);
    const counted_function *function =
        frame && frame->func && frame->func->type == ZEND_INTERNAL_FUNCTION ? function_of(frame)
                                                                            : NULL;

    return function && function->row->kind == SHIM_CALL_HTTP && is_counted(function->row, frame);
}

static php_stream *count_and_open(php_stream_wrapper *wrapper, const char *url, const char *mode,
                                  int options, zend_string **opened, php_stream_context *context
                                  STREAMS_DC)
{
    const counted_wrapper *of = &calls.wrappers[wrapper == &calls.wrappers[1].wrapper];
    php_stream *stream;
    open_call call;

    if (is_counted_by_caller()) {
        return of->original->stream_opener(wrapper, url, mode, options, opened, context
                                           STREAMS_REL_CC);
    }
    call = begin(SHIM_CALL_HTTP, 1);
    stream = of->original->stream_opener(wrapper, url, mode, options, opened, context
                                         STREAMS_REL_CC);
    end(&call);
    return stream;
}

/* ---- standing before ---- */

static void watch_function(HashTable *functions, const call_row *row)
{
    zend_function *found = zend_hash_str_find_ptr(functions, row->name, strlen(row->name));
    zend_internal_function *f = found ? &found->internal_function : NULL;
    counted_function *counted;

    if (!f || f->type != ZEND_INTERNAL_FUNCTION || !f->handler || f->reserved[calls.place]) {
        return;
    }
    counted = pemalloc(sizeof(*counted), 1);
    *counted = (counted_function){row, f->handler};
    f->reserved[calls.place] = counted;
    f->handler = count_and_call;
}

/* A class of an extension has copies of the functions that it inherits; one of a script copies them
 * as they are here. */
static void watch_method(const call_row *row)
{
    zend_class_entry *base =
        zend_hash_str_find_ptr(CG(class_table), row->class, strlen(row->class));
    zend_class_entry *class;

    if (!base) {
        return;
    }
    ZEND_HASH_FOREACH_PTR(CG(class_table), class) {
        if (class->type == ZEND_INTERNAL_CLASS && instanceof_function(class, base)) {
            watch_function(&class->function_table, row);
        }
    } ZEND_HASH_FOREACH_END();
}

static void watch_wrapper(counted_wrapper *counted)
{
    HashTable *known = php_stream_get_url_stream_wrappers_hash_global();
    const size_t len = strlen(counted->protocol);
    const php_stream_wrapper *wrapper = zend_hash_str_find_ptr(known, counted->protocol, len);

    if (!wrapper || !wrapper->wops->stream_opener) {
        return;
    }
    counted->original = wrapper->wops;
    counted->operations = *wrapper->wops;
    counted->operations.stream_opener = count_and_open;
    counted->wrapper = *wrapper;
    counted->wrapper.wops = &counted->operations;
    zend_hash_str_update_ptr(known, counted->protocol, len, &counted->wrapper);
}

void calls_watch(void)
{
    calls.place = zend_get_resource_handle("tokamak");
    if (calls.place < 0) {
        static const char why[] = "count_calls: extensions have taken all places in functions";
        rust_log(SHIM_WARN, why, sizeof(why) - 1);
        return;
    }
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].class) {
            watch_method(&rows[i]);
        } else {
            watch_function(CG(function_table), &rows[i]);
        }
    }
    watch_wrapper(&calls.wrappers[0]);
    watch_wrapper(&calls.wrappers[1]);
}
