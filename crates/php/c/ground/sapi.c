/* The SAPI: PHP's way to its request and its response. */
#include <stdlib.h>
#include <syslog.h>
#include <unistd.h>

#include "ground/sapi.h"
#include "ground/fields.h"
#include "ground/gateway.h"
#include "ground/headers.h"
#include "ground/state.h"
#include "ground/userini.h"
#include "ground/variables.h"

static int on_activate(void)
{
    if (serving->is_head) {
        SG(request_info).headers_only = false;
    }
    if (serving->request && !shim.worker_script) {
        userini_activate(serving->request);
    }
    return SUCCESS;
}

static int on_deactivate(void)
{
    return SUCCESS;
}

/* May jump: unless ignore_user_abort is set, the script ends here. Rust has returned. The script of
 * a HEAD goes on: the front does not wait for more than the head, though the client is there. */
static void note_unread(void)
{
    if (serving->is_head) {
        return;
    }
    shim.mode->client_left();
}

static int write_part(shim_part part, const char *text, size_t len)
{
    return shim.mode->write(part, text, len) == 0;
}

/* The front makes the fields that the GET has of the body of a HEAD, so it gets the begin. PHP by
 * itself would drop all of it. */
static void write_of_head(const char *text, size_t len)
{
    const size_t most = serving->head_left < len ? serving->head_left : len;

    if (most > 0) {
        serving->head_left -= most;
        write_part(SHIM_BODY, text, most);
    }
}

static size_t on_write(const char *text, size_t len)
{
    if (shim.is_copy) {
        return len;
    }
    switch (serving->stage) {
    case STAGE_REQUEST:
        if (serving->is_head) {
            write_of_head(text, len);
            return len;
        }
        if (!write_part(SHIM_BODY, text, len)) {
            note_unread();
            return 0;
        }
        return len;
    case STAGE_BOOT:
        rust_log(SHIM_OUTPUT, text, len);
        return len;
    case STAGE_LATE:
        return len;
    case STAGE_OUTSIDE:
        break;
    }
    return fwrite(text, 1, len, stdout);
}

static void on_flush(void *context)
{
    (void)context;
    if (serving->stage == STAGE_REQUEST && !shim.is_copy && rust_flush() != 0) {
        note_unread();
    }
}

bool sapi_add_trailer(const zend_string *name, const zend_string *value)
{
    static const size_t around = sizeof(": \r\n") - 1;
    smart_str line = {0};
    bool is_read;

    if (serving->stage != STAGE_REQUEST || shim.is_copy || serving->request->is_fastcgi ||
        ZSTR_LEN(name) > SHIM_TRAILERS_MOST || ZSTR_LEN(value) > SHIM_TRAILERS_MOST ||
        serving->trailers + ZSTR_LEN(name) + ZSTR_LEN(value) + around > SHIM_TRAILERS_MOST) {
        return false;
    }
    smart_str_append(&line, name);
    smart_str_appendl(&line, ": ", 2);
    smart_str_append(&line, value);
    smart_str_appendl(&line, "\r\n", 2);
    serving->trailers += ZSTR_LEN(line.s);
    is_read = write_part(SHIM_TRAILERS, ZSTR_VAL(line.s), ZSTR_LEN(line.s));
    smart_str_free(&line);
    if (!is_read) {
        note_unread();
    }
    return is_read;
}

/* As php-fpm and nginx together: a "Status:" header means the status unless a status line was
 * given, a 304 has no Content-Type, a header without a name is dropped. PHP itself has refused CR,
 * LF and NUL before. */
static int send_headers(sapi_headers_struct *headers, int status, int interim)
{
    shim_pair *pairs = fields_pairs(zend_llist_count(&headers->headers) + 1);
    const char *line = headers->http_status_line, *reason = NULL;
    zend_llist_position at;
    size_t count = 0;
    int status_header = 0;

    if (!pairs) {
        return 1;
    }
    for (sapi_header_struct *h = zend_llist_get_first_ex(&headers->headers, &at); h;
         h = zend_llist_get_next_ex(&headers->headers, &at)) {
        shim_pair pair;
        if (!fields_split(h, &pair)) {
            continue;
        }
        if (pair.name.len == 6 && strncasecmp(pair.name.at, "Status", 6) == 0) {
            status_header = atoi(pair.value.at);
            reason = memchr(pair.value.at, ' ', pair.value.len);
            continue;
        }
        if (status == 304 && pair.name.len == 12 &&
            strncasecmp(pair.name.at, "Content-Type", 12) == 0) {
            continue;
        }
        pairs[count++] = pair;
    }
    if (status_header != 0 && !line) {
        status = status_header;
    } else {
        line = line ? strchr(line, ' ') : NULL;
        reason = line ? strchr(line + 1, ' ') : NULL;
    }
    if (reason && !interim) {
        /* The script's own reason phrase: the value of a pair without a name. */
        pairs[count++] = (shim_pair){{"", 0}, {reason + 1, strlen(reason + 1)}};
    }
    if (!interim && (status < 200 || status > 999)) {
        /* 0 is what a request that failed early has; nothing outside HTTP's numbers may reach a
         * client. */
        status = status == 0 ? 200 : 500;
    }
    return rust_head(status, pairs, count, interim);
}

static int on_send_headers(sapi_headers_struct *headers)
{
    int status = headers->http_response_code;
    int interim = status >= 100 && status < 200;
    int sent;

    if (serving->stage != STAGE_REQUEST || shim.is_copy || SG(request_info).no_headers == 1) {
        return SAPI_HEADER_SENT_SUCCESSFULLY;
    }
    if (serving->request->is_fastcgi) {
        /* A response of CGI is one response: there is no place for an interim one. */
        sent = interim ? 0 : gateway_send_headers(headers, status);
    } else {
        sent = send_headers(headers, status, interim);
    }
    if (sent != 0) {
        note_unread();
    }
    return SAPI_HEADER_SENT_SUCCESSFULLY;
}

static size_t on_read_post(char *at, size_t len)
{
    if (serving->stage != STAGE_REQUEST || shim.is_copy || serving->input_closed) {
        return 0;
    }
    return shim.mode->read_body(at, len);
}

static char *on_read_cookies(void)
{
    return serving->stage == STAGE_REQUEST ? headers_cookies() : NULL;
}

static char *on_getenv(const char *name, size_t len)
{
    return serving->request ? variables_getenv(name, len) : NULL;
}

static void on_log(const char *message, int severity)
{
    if (serving->request && serving->request->is_fastcgi) {
        gateway_log(message);
        return;
    }
    shim_level level = severity <= LOG_ERR       ? SHIM_ERROR
                       : severity == LOG_WARNING ? SHIM_WARN
                                                 : SHIM_INFO;
    rust_log(level, message, strlen(message));
}

/* Field order is the header's, which differs between versions: only names are used. */
sapi_module_struct shim_sapi = {
    /* opcache works only under names that it knows, and applications take "cli" for a terminal:
     * this is the name under which they all expect a web server with long-lived processes. */
    .name = "fpm-fcgi",
    .pretty_name = "Tokamak (FPM/FastCGI compatible)",
    .shutdown = php_module_shutdown_wrapper,
    .activate = on_activate,
    .deactivate = on_deactivate,
    .ub_write = on_write,
    .flush = on_flush,
    .getenv = on_getenv,
    .sapi_error = php_error,
    .send_headers = on_send_headers,
    .read_post = on_read_post,
    .read_cookies = on_read_cookies,
    .register_server_variables = variables_register,
    .log_message = on_log,
};

static const char *header(const shim_request *request, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < request->header_count; i++) {
        const shim_pair *h = &request->headers[i];
        if (h->name.len == len && strncasecmp(h->name.at, name, len) == 0) {
            return h->value.at;
        }
    }
    return NULL;
}

/* Fills in what php_request_startup reads. */
void sapi_take_request(const shim_request *request)
{
    const shim_text *f = request->field;

    serving->request = request;
    serving->input_closed = 0;
    serving->filter_fed = 0;
    serving->trailers = 0;
    serving->is_head = !request->is_fastcgi && f[SHIM_METHOD].len == 4 &&
                       memcmp(f[SHIM_METHOD].at, "HEAD", 4) == 0;
    serving->head_left = SHIM_HEAD_BODY_MOST;
    SG(server_context) = serving;
    SG(request_info).request_method = f[SHIM_METHOD].at;
    SG(request_info).query_string = (char *)f[SHIM_QUERY].at;
    /* Not the request's URI: PHP makes PHP_SELF of it. */
    SG(request_info).request_uri = (char *)f[SHIM_SCRIPT_NAME].at;
    SG(request_info).path_translated = (char *)f[SHIM_SCRIPT_FILENAME].at;
    SG(request_info).content_type = f[SHIM_CONTENT_TYPE].at;
    SG(request_info).content_length = (zend_long)request->body_len;
    SG(request_info).argc = 0;
    SG(sapi_headers).http_response_code = 200;
    if (request->is_fastcgi) {
        const shim_text *authorization =
            gateway_parameter(request, ZEND_STRL("HTTP_AUTHORIZATION"));
        php_handle_auth_data(authorization ? authorization->at : NULL);
        if (SG(request_info).auth_user) {
            rust_user(SG(request_info).auth_user, strlen(SG(request_info).auth_user));
        }
    } else {
        php_handle_auth_data(header(request, "Authorization"));
    }
}

/* The memory of the request is the caller's again. */
void sapi_forget_request(void)
{
    if (!serving->own) {
        /* In async mode it lasts until nothing of the request runs any more: it may wait still. */
        serving->request = NULL;
    }
    SG(server_context) = NULL;
    SG(request_info).request_method = NULL;
    SG(request_info).query_string = NULL;
    SG(request_info).request_uri = NULL;
    SG(request_info).path_translated = NULL;
    SG(request_info).content_type = NULL;
    SG(request_info).content_length = 0;
    SG(request_info).cookie_data = NULL;
    /* Freed by sapi_deactivate() and not set to NULL. The end of a worker script calls it once
     * more. */
    SG(request_info).content_type_dup = NULL;
    SG(request_info).current_user = NULL;
    SG(request_info).auth_user = NULL;
    SG(request_info).auth_password = NULL;
    SG(request_info).auth_digest = NULL;
    if (serving->stage == STAGE_REQUEST || serving->stage == STAGE_LATE) {
        serving->stage = shim.worker_script ? STAGE_BOOT : STAGE_OUTSIDE;
    }
}

/* Reads the rest of the body into PHP's own memory (or its temporary file), so that php://input
 * works after the response was finished and the slot with the body belongs to another request. */
void sapi_slurp_body(void)
{
    char block[SAPI_POST_BLOCK_SIZE];
    php_stream *body;
    size_t got;

    if (SG(post_read) || serving->input_closed || SG(request_info).content_length == 0) {
        return;
    }
    if (!SG(request_info).request_body) {
        SG(request_info).request_body = php_stream_temp_create_ex(
            TEMP_STREAM_DEFAULT, SAPI_POST_BLOCK_SIZE, PG(upload_tmp_dir));
    }
    body = SG(request_info).request_body;
    zend_off_t here = php_stream_tell(body);
    php_stream_seek(body, 0, SEEK_END);
    while ((got = sapi_read_post_block(block, sizeof(block))) > 0) {
        php_stream_write(body, block, got);
    }
    php_stream_seek(body, here, SEEK_SET);
}

/* Hands the response over, once. */
void sapi_end_response(void)
{
    if (serving->stage == STAGE_REQUEST) {
        serving->stage = STAGE_LATE;
        if (!shim.is_copy) {
            rust_finish(serving->is_cut, SG(sapi_headers).http_response_code);
        }
    }
}

/* A child that the script forked has come to the end of the request. The request and the place in
 * the queue are its parent's: with _exit nothing of them is touched, not even by a destructor of
 * Rust. */
void sapi_leave_copy(void)
{
    if (shim.is_copy) {
        _exit(EG(exit_status));
    }
}
