/* What requests over FastCGI need beyond those over HTTP, as php-fpm has it: its settings, answers
 * without a script, the head of a response, the log of the web server that sent the request.
 * Settings that come with a request are in values.c.
 *
 * Which script is meant has been found out before, in Rust.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "ground/gateway.h"
#include "ground/fields.h"
#include "ground/state.h"

#include <main/http_status_codes.h>

/* ---- settings ---- */

/* Some of them are only there to be asked for, as in php-fpm. */
typedef struct {
    bool rfc2616_headers, nph, force_redirect, fix_pathinfo, discard_path, logging;
    char *redirect_status_env, *error_header, *config;
} settings;

static settings gateway;

PHP_INI_BEGIN()
STD_PHP_INI_BOOLEAN("cgi.rfc2616_headers", "0", PHP_INI_ALL, OnUpdateBool, rfc2616_headers,
                    settings, gateway)
STD_PHP_INI_BOOLEAN("cgi.nph", "0", PHP_INI_ALL, OnUpdateBool, nph, settings, gateway)
STD_PHP_INI_BOOLEAN("cgi.force_redirect", "1", PHP_INI_SYSTEM, OnUpdateBool, force_redirect,
                    settings, gateway)
STD_PHP_INI_ENTRY("cgi.redirect_status_env", NULL, PHP_INI_SYSTEM, OnUpdateString,
                  redirect_status_env, settings, gateway)
STD_PHP_INI_BOOLEAN("cgi.fix_pathinfo", "1", PHP_INI_SYSTEM, OnUpdateBool, fix_pathinfo, settings,
                    gateway)
STD_PHP_INI_BOOLEAN("cgi.discard_path", "0", PHP_INI_SYSTEM, OnUpdateBool, discard_path, settings,
                    gateway)
STD_PHP_INI_BOOLEAN("fastcgi.logging", "1", PHP_INI_SYSTEM, OnUpdateBool, logging, settings,
                    gateway)
STD_PHP_INI_ENTRY("fastcgi.error_header", NULL, PHP_INI_SYSTEM, OnUpdateString, error_header,
                  settings, gateway)
STD_PHP_INI_ENTRY("fpm.config", NULL, PHP_INI_SYSTEM, OnUpdateString, config, settings, gateway)
PHP_INI_END()

void gateway_install(int type, int module_number)
{
    REGISTER_INI_ENTRIES();
}

void gateway_show_settings(zend_module_entry *zend_module)
{
    DISPLAY_INI_ENTRIES();
}

void shim_gateway_settings(shim_gateway *to)
{
    *to = (shim_gateway){gateway.fix_pathinfo, gateway.discard_path, PG(doc_root)};
}

int gateway_fixes_path_info(void)
{
    return gateway.fix_pathinfo;
}

/* ---- messages to the sender of the request ---- */

/* 1: the client has gone. */
static int say(shim_level level, const char *before, const char *text, const char *after)
{
    const int to_sender = gateway.logging && serving->stage == STAGE_REQUEST && !shim.is_copy;
    /* Not PHP's memory, which may be used up. */
    size_t len = strlen(before) + strlen(text) + strlen(after);
    char *all = malloc(len + 1);
    int gone = 0;

    if (all) {
        snprintf(all, len + 1, "%s%s%s", before, text, after);
        gone = rust_complain(level, all, len, to_sender);
        free(all);
    }
    return gone;
}

/* May jump: unless ignore_user_abort is set, the script ends when the client has gone. */
static void complain_about(shim_level level, const char *before, const char *text,
                           const char *after)
{
    if (say(level, before, text, after) != 0) {
        php_handle_aborted_connection();
    }
}

void gateway_complain(const char *before, const char *text, const char *after)
{
    say(SHIM_ERROR, before, text, after);
}

void gateway_log(const char *message)
{
    complain_about(SHIM_INFO, "PHP message: ", message, "");
}

/* ---- parameters ---- */

const shim_text *gateway_parameter(const shim_request *request, const char *name, size_t len)
{
    for (size_t i = 0; i < request->parameter_count; i++) {
        const shim_pair *p = &request->parameters[i];
        if (p->name.len == len && memcmp(p->name.at, name, len) == 0) {
            return &p->value;
        }
    }
    return NULL;
}

/* ---- answers ---- */

static void answer(int status, const char *body)
{
    SG(sapi_headers).http_response_code = status;
    php_write((void *)body, strlen(body));
}

/* Whether the script may be run; if not, it has been answered. */
int gateway_admits(const shim_request *request)
{
    const char *path = request->field[SHIM_SCRIPT_FILENAME].at;

    switch (request->verdict) {
    case SHIM_RUN:
        return 1;
    case SHIM_DENIED:
        complain_about(SHIM_INFO, "Access to the script '", path,
                       "' has been denied (see security.limit_extensions)");
        answer(403, "Access denied.\n");
        return 0;
    case SHIM_UNKNOWN:
        complain_about(SHIM_DEBUG, "Primary script unknown", "", "");
        answer(404, "File not found.\n");
        return 0;
    default:
        return 0;
    }
}

void gateway_refuse(int status, const shim_text *path)
{
    const char *why = strerror(status >= 500 ? errno : status == 403 ? EACCES : ENOENT);
    char after[80];

    snprintf(after, sizeof(after), " (%s)", why);
    complain_about(SHIM_ERROR, "Unable to open primary script: ", path->at, after);
    answer(status, status >= 500   ? "The script cannot be opened.\n"
                   : status == 403 ? "Access denied.\n"
                                   : "No input file specified.\n");
}

/* fastcgi.error_header: the head of the answer of a script that ended with an error and has not
 * sent one. */
void gateway_note_failure(void)
{
    sapi_header_line line = {0};

    if (!serving->request || !serving->request->is_fastcgi || EG(exit_status) != 255 ||
        SG(headers_sent) || !gateway.error_header || !*gateway.error_header) {
        return;
    }
    line.line = gateway.error_header;
    line.line_len = strlen(gateway.error_header);
    sapi_header_op(SAPI_HEADER_REPLACE, &line);
}

/* ---- the head of a response ---- */

enum { LONGEST_STATUS = 1023 }; /* php-fpm's buffer */

static int is_header(const sapi_header_struct *h, const char *name, size_t len)
{
    return h->header_len > len && h->header[len] == ':' && strncasecmp(h->header, name, len) == 0;
}

static const char *reason_of(int status)
{
    for (const http_response_status_code_pair *known = http_status_map; known->code != 0; known++) {
        if (known->code == status) {
            return known->str;
        }
    }
    return NULL;
}

static int has_status(sapi_headers_struct *headers)
{
    zend_llist_position at;

    for (sapi_header_struct *h = zend_llist_get_first_ex(&headers->headers, &at); h;
         h = zend_llist_get_next_ex(&headers->headers, &at)) {
        if (is_header(h, "Status", 6)) {
            return 1;
        }
    }
    return 0;
}

/* The line that stands first, unless it is 200 or the script wrote one. With cgi.rfc2616_headers it
 * is the script's own, which is no header: its name is empty then. Returns how many pairs it is;
 * *status may become another one. The line is room for its text. */
static size_t put_status(sapi_headers_struct *headers, shim_pair *to, int *status,
                         char line[LONGEST_STATUS + 1])
{
    const char *given = headers->http_status_line, *space = given ? strchr(given, ' ') : NULL,
               *reason;
    size_t len;

    if (*status == 200 && !gateway.nph) {
        return 0;
    }
    if (gateway.rfc2616_headers && given) {
        *status = space ? atoi(space + 1) : *status;
        len = strlen(given);
        *to = (shim_pair){{"", 0}, {given, len < LONGEST_STATUS ? len : LONGEST_STATUS}};
        return 1;
    }
    if (space && space - given >= 5 && strncasecmp(given, "HTTP/", 5) == 0) {
        const size_t most = LONGEST_STATUS - (sizeof("Status: ") - 1);
        *status = atoi(space + 1);
        len = strlen(space + 1);
        *to = (shim_pair){{"Status", 6}, {space + 1, len < most ? len : most}};
        return 1;
    }
    if (has_status(headers)) {
        return 0;
    }
    reason = reason_of(*status);
    len = (size_t)snprintf(line, LONGEST_STATUS + 1, reason ? "%d %s" : "%d", *status, reason);
    *to = (shim_pair){{"Status", 6}, {line, len}};
    return 1;
}

int gateway_send_headers(sapi_headers_struct *headers, int status)
{
    shim_pair *pairs = fields_pairs(zend_llist_count(&headers->headers) + 1);
    char line[LONGEST_STATUS + 1];
    zend_llist_position at;
    size_t count;
    int has_status;

    if (!pairs) {
        return 1;
    }
    status = status == 0 ? 200 : status;
    count = put_status(headers, pairs, &status, line);
    has_status = count > 0;
    for (sapi_header_struct *h = zend_llist_get_first_ex(&headers->headers, &at); h;
         h = zend_llist_get_next_ex(&headers->headers, &at)) {
        shim_pair pair;
        if (!fields_split(h, &pair) || (status == 304 && is_header(h, "Content-Type", 12))) {
            continue;
        }
        if (is_header(h, "Status", 6)) {
            if (has_status) {
                continue;
            }
            has_status = 1;
            status = atoi(pair.value.at);
        }
        pairs[count++] = pair;
    }
    return rust_head(status < 100 || status > 999 ? 500 : status, pairs, count, 0);
}
