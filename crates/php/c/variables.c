/* $_SERVER, $_ENV, getenv() and the request's headers, as php-fpm behind nginx has them. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "variables.h"
#include "gateway.h"
#include "state.h"

static zend_string *field_keys[SHIM_FIELD_COUNT];
static zend_string *key_software, *key_gateway, *key_status, *key_role, *key_https, *key_self,
    *key_user;
static zend_string *value_gateway, *value_status, *value_role, *value_on, *value_software;
static void (*import_of_php)(zval *array);
static void (*load_of_php)(zval *array);

/* nginx's rule: a name of other characters is dropped. An underscore could spoof a dash
 * ("X_Real_Ip"), a dot or a bracket would be mangled by PHP. "Proxy" would become HTTP_PROXY, which
 * libraries take for a setting. */
static int is_passed(const shim_text *name)
{
    for (size_t i = 0; i < name->len; i++) {
        unsigned char c = (unsigned char)name->at[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-')) {
            return 0;
        }
    }
    return name->len > 0 && !(name->len == 5 && strncasecmp(name->at, "proxy", 5) == 0);
}

static int is_same(const shim_text *a, const shim_text *b)
{
    return a->len == b->len && strncasecmp(a->at, b->at, a->len) == 0;
}

/* The header's value with those of its later namesakes; NULL: an earlier one has told it
 * already. */
static zend_string *joined(const shim_request *request, size_t n)
{
    const shim_pair *h = &request->headers[n];
    const char *between =
        h->name.len == 6 && strncasecmp(h->name.at, "cookie", 6) == 0 ? "; " : ", ";
    smart_str all = {0};
    size_t i;

    for (i = 0; i < n; i++) {
        if (is_same(&request->headers[i].name, &h->name)) {
            return NULL;
        }
    }
    for (i = n + 1; i < request->header_count; i++) {
        if (is_same(&request->headers[i].name, &h->name)) {
            if (!all.s) {
                smart_str_appendl(&all, h->value.at, h->value.len);
            }
            smart_str_appendl(&all, between, 2);
            smart_str_appendl(&all, request->headers[i].value.at, request->headers[i].value.len);
        }
    }
    return all.s ? smart_str_extract(&all) : zend_string_init(h->value.at, h->value.len, 0);
}

static zend_string *http_key(const shim_text *name)
{
    zend_string *key = zend_string_alloc(name->len + 5, 0);
    char *to = ZSTR_VAL(key);

    memcpy(to, "HTTP_", 5);
    for (size_t i = 0; i < name->len; i++) {
        char c = name->at[i];
        to[i + 5] = c >= 'a' && c <= 'z' ? c - 32 : c == '-' ? '_' : c;
    }
    to[name->len + 5] = 0;
    return key;
}

/* A filter other than the default one (filter.default) must see each variable while $_SERVER is
 * made. With the default one, ext/filter only keeps a second copy for filter_input(); it gets that
 * when filter_input() is called (functions.c), which saves about 6 µs a request. */
static int has_filter(void)
{
    const char *name = zend_ini_string("filter.default", sizeof("filter.default") - 1, 0);
    return name && *name && strcmp(name, "unsafe_raw") != 0 && sapi_module.input_filter;
}

typedef struct {
    zval *array;
    int filter; /* 0, or PARSE_SERVER, PARSE_ENV */
} sink;

static void put(const sink *to, zend_string *key, zend_string *value)
{
    zval v;

    if (to->filter) {
        char *text = ZSTR_VAL(value);
        size_t len = ZSTR_LEN(value);
        /* True only for PARSE_STRING; otherwise the filter has put the variable into http_globals
         * itself. */
        if (sapi_module.input_filter(to->filter, ZSTR_VAL(key), &text, len, &len)) {
            php_register_variable_safe(ZSTR_VAL(key), text, len, to->array);
        }
        zend_string_release(value);
        return;
    }
    ZVAL_STR(&v, value);
    zend_hash_update(Z_ARRVAL_P(to->array), key, &v);
}

/* A name that PHP leaves as it is: others become arrays, or have a character replaced. */
static int is_plain(const shim_text *name)
{
    for (size_t i = 0; i < name->len; i++) {
        unsigned char c = (unsigned char)name->at[i];
        if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
              c == '_')) {
            return 0;
        }
    }
    return name->len > 0 && !(name->at[0] >= '0' && name->at[0] <= '9');
}

static void put_parameters(const sink *to)
{
    const shim_request *r = serving->request;

    for (size_t i = 0; i < r->parameter_count; i++) {
        const shim_text *name = &r->parameters[i].name, *value = &r->parameters[i].value;
        if (is_plain(name)) {
            zend_string *key = zend_string_init(name->at, name->len, 0);
            put(to, key, zend_string_init(value->at, value->len, 0));
            zend_string_release(key);
        } else {
            char *text = estrndup(value->at, value->len);
            size_t len = value->len;
            if (!to->filter || sapi_module.input_filter(to->filter, name->at, &text, len, &len)) {
                php_register_variable_safe(name->at, text, len, to->array);
            }
            efree(text);
        }
    }
}

static void put_request(const sink *to)
{
    const shim_request *r = serving->request;
    const shim_text *f;
    const char *user = SG(request_info).auth_user;

    if (r->is_fastcgi) {
        put_parameters(to);
        return;
    }
    for (int i = 0; i < SHIM_FIELD_COUNT; i++) {
        f = &r->field[i];
        put(to, field_keys[i], f->len ? zend_string_init(f->at, f->len, 0) : ZSTR_EMPTY_ALLOC());
    }
    put(to, key_gateway, zend_string_copy(value_gateway));
    put(to, key_software, zend_string_copy(value_software));
    put(to, key_status, zend_string_copy(value_status));
    put(to, key_role, zend_string_copy(value_role));
    f = &r->field[SHIM_SCHEME];
    if (f->len == 5 && memcmp(f->at, "https", 5) == 0) {
        put(to, key_https, zend_string_copy(value_on));
    }
    put(to, key_user, user ? zend_string_init(user, strlen(user), 0) : ZSTR_EMPTY_ALLOC());
    for (size_t i = 0; i < r->header_count; i++) {
        zend_string *key, *value;
        if (!is_passed(&r->headers[i].name) || !(value = joined(r, i))) {
            continue;
        }
        key = http_key(&r->headers[i].name);
        put(to, key, value);
        zend_string_release(key);
    }
    put_parameters(to);
}

static void put_self(const sink *to)
{
    const shim_text *name = &serving->request->field[SHIM_SCRIPT_NAME];
    const shim_text *info = &serving->request->field[SHIM_PATH_INFO];
    const size_t info_len =
        serving->request->is_fastcgi && !gateway_fixes_path_info() ? 0 : info->len;
    zend_string *self = zend_string_alloc(name->len + info_len, 0);

    memcpy(ZSTR_VAL(self), name->at, name->len);
    memcpy(ZSTR_VAL(self) + name->len, info->at, info_len);
    ZSTR_VAL(self)[name->len + info_len] = 0;
    put(to, key_self, self);
}

/* A worker script before its loop: the keys that a command line would have, and the marks by which
 * Symfony's and Laravel's runners know where they are. */
static void put_boot(zval *array)
{
    char *script = SG(request_info).path_translated;

    add_assoc_string(array, "SCRIPT_FILENAME", script ? script : "");
    add_assoc_string(array, "SCRIPT_NAME", script ? script : "");
    add_assoc_string(array, "PHP_SELF", script ? script : "");
    add_assoc_string(array, "PATH_TRANSLATED", script ? script : "");
    add_assoc_string(array, "DOCUMENT_ROOT", shim.config->root ? shim.config->root : "");
    add_assoc_string(array, "SERVER_SOFTWARE", shim.config->software);
    add_assoc_string(array, "FRANKENPHP_WORKER", "1");
    add_assoc_string(array, "TOKAMAK_WORKER", "1");
}

/* The environment and, as under php-fpm, the request: for $_SERVER, $_ENV (variables_order with E),
 * getenv(). */
static void import(zval *array)
{
    sink to = {array, 0};

    import_of_php(array);
    if (serving->request) {
        if (has_filter()) {
            to.filter = Z_ARR_P(array) == Z_ARR(PG(http_globals)[TRACK_VARS_ENV]) ? PARSE_ENV
                                                                                  : PARSE_SERVER;
        }
        put_request(&to);
    }
}

static void load(zval *array)
{
    sink to = {array, 0};

    load_of_php(array);
    if (serving->request) {
        put_request(&to);
    }
}

void variables_register(zval *array)
{
    sink to = {array, has_filter() ? PARSE_SERVER : 0};

    import(array);
    if (serving->request) {
        put_self(&to);
        serving->filter_fed = to.filter != 0;
    } else if (serving->stage == STAGE_BOOT) {
        put_boot(array);
    }
}

/* Shows the request to ext/filter, once: it keeps what filter_input(INPUT_SERVER) returns. */
void variables_feed_filter(void)
{
    sink to = {&PG(http_globals)[TRACK_VARS_SERVER], PARSE_SERVER};

    if (serving->filter_fed || !serving->request || !sapi_module.input_filter) {
        return;
    }
    serving->filter_fed = 1;
    zend_is_auto_global(ZSTR_KNOWN(ZEND_STR_AUTOGLOBAL_SERVER));
    if (Z_TYPE_P(to.array) == IS_ARRAY) {
        SEPARATE_ARRAY(to.array);
        put_request(&to);
        put_self(&to);
    }
}

/* `from` with a capital letter at the beginning of each word and small ones behind it; words end
 * with `end`. */
static zend_string *header_name(const char *from, size_t len, char end)
{
    zend_string *name = zend_string_init(from, len, 0);
    int upper = 1;

    for (size_t i = 0; i < len; i++) {
        char *c = &ZSTR_VAL(name)[i];
        const int is_end = *c == end;
        *c = is_end ? '-' : upper ? toupper((unsigned char)*c) : tolower((unsigned char)*c);
        upper = is_end;
    }
    return name;
}

static void add_header(zval *array, zend_string *name, zend_string *value)
{
    zval v;

    ZVAL_STR(&v, value);
    zend_symtable_update(Z_ARRVAL_P(array), name, &v);
    zend_string_release(name);
}

static void headers_of_parameters(zval *array)
{
    const shim_request *r = serving->request;

    for (size_t i = 0; i < r->parameter_count; i++) {
        const shim_text *name = &r->parameters[i].name, *value = &r->parameters[i].value;
        const size_t skip = name->len > 5 && memcmp(name->at, "HTTP_", 5) == 0 ? 5 : 0;
        if (skip || zend_binary_strcmp(name->at, name->len, ZEND_STRL("CONTENT_TYPE")) == 0 ||
            zend_binary_strcmp(name->at, name->len, ZEND_STRL("CONTENT_LENGTH")) == 0) {
            add_header(array, header_name(name->at + skip, name->len - skip, '_'),
                       zend_string_init(value->at, value->len, 0));
        }
    }
}

/* getallheaders(): names in the usual spelling, as php-fpm gives them. */
void variables_headers(zval *array)
{
    const shim_request *r = serving->request;

    if (!r) {
        return;
    }
    if (r->is_fastcgi) {
        headers_of_parameters(array);
        return;
    }
    for (size_t i = 0; i < r->header_count; i++) {
        zend_string *value;
        if (is_passed(&r->headers[i].name) && (value = joined(r, i))) {
            add_header(array, header_name(r->headers[i].name.at, r->headers[i].name.len, '-'),
                       value);
        }
    }
}

/* getenv('REQUEST_METHOD') and its like work under php-fpm. The caller copies the result at
 * once. */
char *variables_getenv(const char *name, size_t len)
{
    const shim_request *r = serving->request;
    const shim_text *parameter = gateway_parameter(r, name, len);

    if (parameter || r->is_fastcgi) {
        return parameter ? (char *)parameter->at : NULL;
    }
    for (int i = 0; i < SHIM_FIELD_COUNT; i++) {
        if (ZSTR_LEN(field_keys[i]) == len && memcmp(ZSTR_VAL(field_keys[i]), name, len) == 0) {
            return (char *)r->field[i].at;
        }
    }
    if (len > 5 && memcmp(name, "HTTP_", 5) == 0) {
        for (size_t i = 0; i < r->header_count; i++) {
            zend_string *key, *value;
            int found;
            if (!is_passed(&r->headers[i].name)) {
                continue;
            }
            key = http_key(&r->headers[i].name);
            found = ZSTR_LEN(key) == len && memcmp(ZSTR_VAL(key), name, len) == 0;
            zend_string_release(key);
            if (found && (value = joined(r, i))) {
                free(serving->variable);
                serving->variable = strndup(ZSTR_VAL(value), ZSTR_LEN(value));
                zend_string_release(value);
                return serving->variable;
            }
        }
        return NULL;
    }
    if (len == 15 && memcmp(name, "SERVER_SOFTWARE", 15) == 0) {
        return (char *)shim.config->software;
    }
    if (len == 17 && memcmp(name, "GATEWAY_INTERFACE", 17) == 0) {
        return ZSTR_VAL(value_gateway);
    }
    return NULL;
}

char *variables_cookies(void)
{
    const shim_request *r = serving->request;

    if (r->is_fastcgi) {
        const shim_text *value = gateway_parameter(r, ZEND_STRL("HTTP_COOKIE"));
        return value ? (char *)value->at : NULL;
    }
    for (size_t i = 0; i < r->header_count; i++) {
        const shim_text *name = &r->headers[i].name;
        if (name->len == 6 && strncasecmp(name->at, "cookie", 6) == 0) {
            zend_string *all;
            size_t later = i + 1;
            while (later < r->header_count && !is_same(&r->headers[later].name, name)) {
                later++;
            }
            if (later == r->header_count) {
                return (char *)r->headers[i].value.at;
            }
            all = joined(r, i);
            serving->joined_cookie = estrndup(ZSTR_VAL(all), ZSTR_LEN(all));
            zend_string_release(all);
            return serving->joined_cookie;
        }
    }
    return NULL;
}

static zend_string *lasting(const char *text)
{
    return zend_string_init_interned(text, strlen(text), 1);
}

/* During module start-up: later, PHP would take these strings for a request's own and free them
 * with it. */
void variables_install(void)
{
    static const char *const keys[] = {
#define SHIM_KEY(name, key) key,
        SHIM_FIELDS(SHIM_KEY)
#undef SHIM_KEY
    };

    for (int i = 0; i < SHIM_FIELD_COUNT; i++) {
        field_keys[i] = lasting(keys[i]);
    }
    key_gateway = lasting("GATEWAY_INTERFACE");
    key_software = lasting("SERVER_SOFTWARE");
    key_status = lasting("REDIRECT_STATUS");
    key_role = lasting("FCGI_ROLE");
    key_https = lasting("HTTPS");
    key_self = lasting("PHP_SELF");
    key_user = lasting("REMOTE_USER");
    value_gateway = lasting("CGI/1.1");
    value_status = lasting("200");
    value_role = lasting("RESPONDER");
    value_on = lasting("on");
    value_software = lasting(shim.config->software);
    import_of_php = php_import_environment_variables;
    load_of_php = php_load_environment_variables;
    php_import_environment_variables = import;
    php_load_environment_variables = load;
}
