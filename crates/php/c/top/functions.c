/* The functions and constants that scripts see. */
#include <ctype.h>
#include <time.h>

#include "top/functions.h"
#include "async/async_functions.h"
#include "async/context.h"
#include "async/coroutines.h"
#include "async/in_use.h"
#include "async/php_classes.h"
#include "cycle/worker_script.h"
#include "ground/fields.h"
#include "ground/gateway.h"
#include "ground/headers.h"
#include "ground/sapi.h"
#include "ground/state.h"
#include "ground/variables.h"
#include "sealed/boot.h"
#include "sealed/connections.h"
#include "top/publish.h"

/* Ends the response; the script goes on. What it prints from now on is dropped and is no reason to
 * take the client for gone. */
ZEND_FUNCTION(tokamak_finish_request)
{
    ZEND_PARSE_PARAMETERS_NONE();

    if (serving->stage != STAGE_REQUEST) {
        RETURN_FALSE;
    }
    php_output_end_all();
    php_header();
    sapi_slurp_body();
    sapi_end_response();
    RETURN_TRUE;
}

ZEND_FUNCTION(tokamak_handle_request)
{
    zend_fcall_info fci;
    zend_fcall_info_cache fcc;

    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_FUNC(fci, fcc)
    ZEND_PARSE_PARAMETERS_END();

    if (!shim.worker_script) {
        zend_throw_exception(
            spl_ce_RuntimeException,
            "tokamak_handle_request() called outside a worker script: this site has none", 0);
        RETURN_THROWS();
    }
    if (serving->stage != STAGE_BOOT) {
        zend_throw_exception(spl_ce_RuntimeException,
                             "tokamak_handle_request() called while a request is handled", 0);
        RETURN_THROWS();
    }
    if (!worker_script_handle(&fci, &fcc, return_value)) {
        RETURN_FALSE;
    }
    RETURN_TRUE;
}

ZEND_FUNCTION(headers_send)
{
    zend_long status = 200;

    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(status)
    ZEND_PARSE_PARAMETERS_END();

    if (status >= 100 && status < 200) {
        int before = SG(sapi_headers).http_response_code;
        int sent;
        if (SG(headers_sent)) {
            RETURN_LONG(SAPI_HEADER_SEND_FAILED);
        }
        SG(sapi_headers).http_response_code = (int)status;
        sent = sapi_module.send_headers(&SG(sapi_headers));
        SG(sapi_headers).http_response_code = before;
        RETURN_LONG(sent);
    }
    SG(sapi_headers).http_response_code = (int)status;
    RETURN_LONG(sapi_send_headers());
}

/* Fields that frame a message, or that must be known before its body (RFC 9110 section 6.5.1). */
static bool belongs_in_the_head(const zend_string *name)
{
    static const char *const fields[] = {
        "Age", "Authorization", "Cache-Control", "Connection", "Content-Encoding", "Content-Length",
        "Content-Range", "Content-Type", "Date", "Expires", "Host", "Keep-Alive", "Location",
        "Max-Forwards", "Proxy-Connection", "Retry-After", "Set-Cookie", "Status", "TE", "Trailer",
        "Transfer-Encoding", "Upgrade", "Vary", "WWW-Authenticate"};

    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
        if (strcasecmp(ZSTR_VAL(name), fields[i]) == 0) {
            return true;
        }
    }
    return false;
}

ZEND_FUNCTION(tokamak_trailer)
{
    zend_string *name, *value;

    ZEND_PARSE_PARAMETERS_START(2, 2)
        Z_PARAM_STR(name)
        Z_PARAM_STR(value)
    ZEND_PARSE_PARAMETERS_END();

    if (!fields_is_name(name)) {
        zend_argument_value_error(1, "must be the name of a header field");
        RETURN_THROWS();
    }
    if (belongs_in_the_head(name)) {
        zend_argument_value_error(1, "must not be a field that belongs in the head");
        RETURN_THROWS();
    }
    for (size_t i = 0; i < ZSTR_LEN(value); i++) {
        if (iscntrl((unsigned char)ZSTR_VAL(value)[i]) && ZSTR_VAL(value)[i] != '\t') {
            zend_argument_value_error(2, "must not contain control characters");
            RETURN_THROWS();
        }
    }
    RETURN_BOOL(sapi_add_trailer(name, value));
}

ZEND_FUNCTION(tokamak_request_headers)
{
    ZEND_PARSE_PARAMETERS_NONE();
    array_init(return_value);
    headers_list(return_value);
}

ZEND_FUNCTION(tokamak_response_headers)
{
    zend_llist_position at;

    ZEND_PARSE_PARAMETERS_NONE();
    array_init(return_value);
    for (sapi_header_struct *h = zend_llist_get_first_ex(&SG(sapi_headers).headers, &at); h;
         h = zend_llist_get_next_ex(&SG(sapi_headers).headers, &at)) {
        char *colon = memchr(h->header, ':', h->header_len);
        char *value;
        if (!colon) {
            continue;
        }
        for (value = colon + 1; *value == ' ' || *value == '\t'; value++) {
        }
        add_assoc_str_ex(return_value, h->header, colon - h->header,
                         zend_string_init(value, h->header + h->header_len - value, 0));
    }
}

static void append_context(smart_str *line, HashTable *context)
{
    zend_string *key;
    zend_ulong index;
    zval *item;

    ZEND_HASH_FOREACH_KEY_VAL(context, index, key, item) {
        zend_string *text, *spare;
        smart_str_appendc(line, ' ');
        if (key) {
            smart_str_append(line, key);
        } else {
            smart_str_append_long(line, (zend_long)index);
        }
        smart_str_appendl(line, "=\"", 2);
        if (Z_TYPE_P(item) == IS_ARRAY || Z_TYPE_P(item) == IS_OBJECT) {
            smart_str_appends(line, zend_zval_type_name(item));
        } else {
            text = zval_get_tmp_string(item, &spare);
            for (size_t i = 0; i < ZSTR_LEN(text); i++) {
                char c = ZSTR_VAL(text)[i];
                if (c == '"' || c == '\\') {
                    smart_str_appendc(line, '\\');
                }
                smart_str_appendc(line, c);
            }
            zend_tmp_string_release(spare);
        }
        smart_str_appendc(line, '"');
    } ZEND_HASH_FOREACH_END();
}

ZEND_FUNCTION(tokamak_log)
{
    zend_string *message;
    zend_long level = 0;
    HashTable *context = NULL;
    smart_str line = {0};

    ZEND_PARSE_PARAMETERS_START(1, 3)
        Z_PARAM_STR(message)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(level)
        Z_PARAM_ARRAY_HT(context)
    ZEND_PARSE_PARAMETERS_END();

    smart_str_append(&line, message);
    if (context) {
        append_context(&line, context);
    }
    smart_str_0(&line);
    if (line.s) {
        rust_log(level >= 8   ? SHIM_ERROR
                 : level >= 4 ? SHIM_WARN
                              : SHIM_INFO,
                 ZSTR_VAL(line.s), ZSTR_LEN(line.s));
    }
    smart_str_free(&line);
}

static void add_text(zval *to, const char *key, const shim_text *text)
{
    add_assoc_stringl(to, key, text->len ? text->at : "-", text->len ? text->len : 1);
}

/* Whether it has a request: also one whose response is complete already. */
static int is_active(const shim_scoreboard_entry *entry)
{
    return strcmp(entry->state, "Running") == 0 || strcmp(entry->state, "Finishing") == 0;
}

/* One worker, with php-fpm's keys; is_pool: also with those that only a pool of php-fpm's kind
 * has. */
static void add_process(zval *to, const shim_scoreboard_entry *entry, uint64_t now_ns, int is_pool)
{
    const int busy = is_active(entry), running = busy && entry->state[0] == 'R';
    const char *query = memchr(entry->uri.at, '?', entry->uri.len);
    const size_t uri_len = is_pool && query ? (size_t)(query - entry->uri.at) : entry->uri.len;
    const uint64_t since = now_ns > entry->since_ns ? now_ns - entry->since_ns : 0;
    const uint64_t age =
        now_ns > entry->started_ns ? (now_ns - entry->started_ns) / 1000000000u : 0;
    zval proc;

    array_init(&proc);
    add_assoc_long(&proc, "pid", (zend_long)entry->pid);
    add_assoc_string(&proc, "state", entry->state);
    if (is_pool) {
        add_assoc_long(&proc, "start-time", (zend_long)(time(NULL) - (time_t)age));
        add_assoc_long(&proc, "start-since", (zend_long)age);
    }
    /* In php-fpm the one under way counts. */
    add_assoc_long(&proc, "requests",
                   (zend_long)(entry->requests + (uint64_t)(is_pool && running)));
    add_assoc_long(&proc, "request-duration",
                   (zend_long)((is_pool && !busy ? entry->last_took_ns : since) / 1000));
    add_assoc_stringl(&proc, "request-method", entry->method.at, entry->method.len);
    add_assoc_stringl(&proc, "request-uri", entry->uri.at, uri_len);
    if (is_pool) {
        const double cpu = entry->last_took_ns
                               ? (double)entry->last_cpu_us * 100000. / (double)entry->last_took_ns
                               : 0.;
        add_assoc_stringl(&proc, "query-string", query ? query + 1 : "",
                          query ? entry->uri.len - uri_len - 1 : 0);
        add_assoc_long(&proc, "request-length", (zend_long)entry->body_len);
        add_text(&proc, "user", &entry->user);
        add_text(&proc, "script", &entry->script);
        add_assoc_double(&proc, "last-request-cpu", busy ? 0. : cpu);
    }
    add_assoc_long(&proc, "last-request-memory", is_pool && busy ? 0 : (zend_long)entry->memory);
    add_next_index_zval(to, &proc);
}

/* php-fpm's fpm_get_status(); on a site the keys that mean something there. */
ZEND_FUNCTION(fpm_get_status)
{
    static const char *const managers[] = {"static", "dynamic", "ondemand"};
    struct timespec now;
    shim_scoreboard_entry entry;
    shim_pool pool;
    zval procs;
    zend_long idle = 0, active = 0, accepted = 0;
    int is_pool;

    ZEND_PARSE_PARAMETERS_NONE();
    clock_gettime(CLOCK_MONOTONIC, &now);
    rust_pool(&pool);
    is_pool = pool.manager >= 1 && pool.manager <= 3;
    array_init(return_value);
    array_init(&procs);
    for (size_t n = 0; rust_scoreboard_entry(n, &entry); n++) {
        if (entry.pid != 0) {
            const int busy = is_active(&entry);
            idle += !busy;
            active += busy;
            accepted += (zend_long)entry.requests;
            add_process(&procs, &entry, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
                        is_pool);
        }
    }
    add_assoc_string(return_value, "pool", shim.config->site);
    if (is_pool) {
        add_assoc_string(return_value, "process-manager", managers[pool.manager - 1]);
        add_assoc_long(return_value, "start-time", (zend_long)pool.started);
        add_assoc_long(return_value, "start-since", (zend_long)(time(NULL) - (time_t)pool.started));
        add_assoc_long(return_value, "accepted-conn", (zend_long)pool.accepted);
        add_assoc_long(return_value, "listen-queue", (zend_long)pool.listen_queue);
        add_assoc_long(return_value, "max-listen-queue", (zend_long)pool.max_listen_queue);
        add_assoc_long(return_value, "listen-queue-len", (zend_long)pool.listen_queue_len);
    } else {
        add_assoc_long(return_value, "accepted-conn", accepted);
    }
    add_assoc_long(return_value, "idle-processes", idle);
    add_assoc_long(return_value, "active-processes", active);
    add_assoc_long(return_value, "total-processes", idle + active);
    if (is_pool) {
        add_assoc_long(return_value, "max-active-processes", (zend_long)pool.max_active);
        add_assoc_long(return_value, "max-children-reached", (zend_long)pool.max_children_reached);
        add_assoc_long(return_value, "slow-requests", (zend_long)pool.slow_requests);
    }
    add_assoc_zval(return_value, "procs", &procs);
}

/* filter_input(INPUT_SERVER, …) and its family read ext/filter's own copy, which is made when first
 * asked for. */
static struct {
    const char *name;
    zif_handler original;
} fed[] = {{"filter_input", NULL}, {"filter_input_array", NULL}, {"filter_has_var", NULL}};

static void feed_and_call(size_t n, INTERNAL_FUNCTION_PARAMETERS)
{
    variables_feed_filter();
    fed[n].original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static void feed_0(INTERNAL_FUNCTION_PARAMETERS)
{
    feed_and_call(0, INTERNAL_FUNCTION_PARAM_PASSTHRU);
}
static void feed_1(INTERNAL_FUNCTION_PARAMETERS)
{
    feed_and_call(1, INTERNAL_FUNCTION_PARAM_PASSTHRU);
}
static void feed_2(INTERNAL_FUNCTION_PARAMETERS)
{
    feed_and_call(2, INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_handle, 0, 1, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, callback, IS_CALLABLE, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_finish, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_send, 0, 0, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, status, IS_LONG, 0, "200")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_trailer, 0, 2, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, value, IS_STRING, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_mercure_publish, 0, 1, IS_STRING, 0)
    ZEND_ARG_TYPE_MASK(0, topics, MAY_BE_STRING | MAY_BE_ARRAY, NULL)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, data, IS_STRING, 0, "''")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, private, _IS_BOOL, 0, "false")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, id, IS_STRING, 1, "null")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, type, IS_STRING, 1, "null")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, retry, IS_LONG, 1, "null")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_publish, 0, 2, IS_STRING, 0)
    ZEND_ARG_TYPE_MASK(0, topics, MAY_BE_STRING | MAY_BE_ARRAY, NULL)
    ZEND_ARG_TYPE_INFO(0, data, IS_STRING, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_array, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_response, 0, 0, MAY_BE_ARRAY | MAY_BE_BOOL)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_log, 0, 1, IS_VOID, 0)
    ZEND_ARG_TYPE_INFO(0, message, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, level, IS_LONG, 0, "0")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, context, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_substitute, 0, 2, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, file, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, by, IS_STRING, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_watch, 0, 1, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, path, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_keep, 0, 1, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, open, IS_CALLABLE, 0)
ZEND_END_ARG_INFO()

static const zend_function_entry functions[] = {
    ZEND_FE(tokamak_handle_request, arginfo_handle)
    ZEND_FALIAS(frankenphp_handle_request, tokamak_handle_request, arginfo_handle)
    ZEND_FE(tokamak_finish_request, arginfo_finish)
    ZEND_FALIAS(frankenphp_finish_request, tokamak_finish_request, arginfo_finish)
    ZEND_FALIAS(fastcgi_finish_request, tokamak_finish_request, arginfo_finish)
    ZEND_FE(headers_send, arginfo_send)
    ZEND_FE(tokamak_trailer, arginfo_trailer)
    ZEND_FE(tokamak_publish, arginfo_publish)
    ZEND_FE(mercure_publish, arginfo_mercure_publish)
    ZEND_FE(tokamak_request_headers, arginfo_array)
    ZEND_FALIAS(frankenphp_request_headers, tokamak_request_headers, arginfo_array)
    ZEND_FALIAS(apache_request_headers, tokamak_request_headers, arginfo_array)
    ZEND_FALIAS(getallheaders, tokamak_request_headers, arginfo_array)
    ZEND_FE(tokamak_response_headers, arginfo_response)
    ZEND_FALIAS(frankenphp_response_headers, tokamak_response_headers, arginfo_response)
    ZEND_FALIAS(apache_response_headers, tokamak_response_headers, arginfo_response)
    ZEND_FE(tokamak_log, arginfo_log)
    ZEND_FALIAS(frankenphp_log, tokamak_log, arginfo_log)
    ZEND_FE(fpm_get_status, arginfo_array)
    ZEND_FE(tokamak_substitute_file, arginfo_substitute)
    ZEND_FE(tokamak_watch_file, arginfo_watch)
    ZEND_FE(tokamak_decline, arginfo_finish)
    ZEND_FE(tokamak_keep_connections, arginfo_keep)
    ZEND_FE_END
};

static ZEND_MINIT_FUNCTION(tokamak)
{
    static const zif_handler feeders[] = {feed_0, feed_1, feed_2};

    REGISTER_LONG_CONSTANT("FRANKENPHP_LOG_LEVEL_DEBUG", -4, CONST_CS | CONST_PERSISTENT);
    REGISTER_LONG_CONSTANT("FRANKENPHP_LOG_LEVEL_INFO", 0, CONST_CS | CONST_PERSISTENT);
    REGISTER_LONG_CONSTANT("FRANKENPHP_LOG_LEVEL_WARN", 4, CONST_CS | CONST_PERSISTENT);
    REGISTER_LONG_CONSTANT("FRANKENPHP_LOG_LEVEL_ERROR", 8, CONST_CS | CONST_PERSISTENT);
    in_use_declare();
    variables_install();
    async_functions_install();
    context_install();
    php_classes_install();
    gateway_install(type, module_number);
    for (size_t i = 0; i < sizeof(fed) / sizeof(*fed); i++) {
        zend_function *f =
            zend_hash_str_find_ptr(CG(function_table), fed[i].name, strlen(fed[i].name));
        if (f && f->type == ZEND_INTERNAL_FUNCTION) {
            fed[i].original = f->internal_function.handler;
            f->internal_function.handler = feeders[i];
        }
    }
    return SUCCESS;
}

static ZEND_RSHUTDOWN_FUNCTION(tokamak)
{
    /* After shutdown functions and destructors the body is not read; without this, PHP would read
     * the rest of it only to throw it away. */
    serving->input_closed = 1;
    context_forget();
    coroutines_report();
    serving->memory = zend_memory_peak_usage(1);
    return SUCCESS;
}

static ZEND_MINFO_FUNCTION(tokamak)
{
    php_info_print_table_start();
    php_info_print_table_row(2, "Server", shim.config->software);
    php_info_print_table_row(2, "Mode",
                             shim.sealed          ? "sealed"
                             : shim.worker_script ? "worker"
                                                  : "classic");
    php_info_print_table_end();
    gateway_show_settings(zend_module);
}

zend_module_entry shim_module = {
    STANDARD_MODULE_HEADER,
    "tokamak",
    functions,
    ZEND_MINIT(tokamak),
    NULL,
    NULL,
    ZEND_RSHUTDOWN(tokamak),
    ZEND_MINFO(tokamak),
    "0.1.0",
    STANDARD_MODULE_PROPERTIES,
};
