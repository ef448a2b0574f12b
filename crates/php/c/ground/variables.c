/* $_SERVER, $_ENV and getenv(), as php-fpm behind nginx has them. */
#include <stdlib.h>
#include <string.h>

#include "ground/variables.h"
#include "ground/environment.h"
#include "ground/gateway.h"
#include "ground/headers.h"
#include "ground/state.h"
#include "ground/template.h"

/* The keys that every request over HTTP has: its fields in their order, those that are the same for
 * all of them, and its user. */
enum {
    KEY_GATEWAY = SHIM_FIELD_COUNT,
    KEY_SOFTWARE,
    KEY_STATUS,
    KEY_ROLE,
    KEY_USER,
    KEY_COUNT
};

static zend_string *keys[KEY_COUNT], *constants[KEY_COUNT], *key_https, *key_self, *value_on;

/* The learned environment with these keys, and the index of the bucket of each. NULL until an
 * environment is learned. */
static HashTable *template;
static uint32_t places[KEY_COUNT];

/* A filter other than the default one (filter.default) must see each variable while $_SERVER is
 * made. With the default one, ext/filter only keeps a second copy for filter_input(); it gets that
 * when filter_input() is called (functions.c), which saves about 6 µs a request. */
static int has_filter(void)
{
    const zend_string *name = shim.filter_default ? shim.filter_default->value : NULL;

    return name && ZSTR_LEN(name) > 0 && !zend_string_equals_literal(name, "unsafe_raw") &&
           sapi_module.input_filter;
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

/* Values: the caller owns them. */
static zend_string *field_value(int field)
{
    const shim_text *text = &serving->request->field[field];

    return zend_string_init_fast(text->at, text->len);
}

static zend_string *user_value(void)
{
    const char *user = SG(request_info).auth_user;

    return user ? zend_string_init(user, strlen(user), 0) : ZSTR_EMPTY_ALLOC();
}

/* Of a key that every request over HTTP has. */
static zend_string *value_of(int key)
{
    return key < SHIM_FIELD_COUNT ? field_value(key)
           : key == KEY_USER      ? user_value()
                                  : constants[key];
}

/* What not every request over HTTP has. */
static void put_rest(const sink *to)
{
    const shim_request *r = serving->request;
    const shim_text *scheme = &r->field[SHIM_SCHEME];

    if (scheme->len == 5 && memcmp(scheme->at, "https", 5) == 0) {
        put(to, key_https, value_on);
    }
    for (size_t i = 0; i < r->header_count; i++) {
        zend_string *key, *value;
        if (!headers_is_passed(&r->headers[i].name) || !(value = headers_joined(r, i))) {
            continue;
        }
        key = headers_key(&r->headers[i].name);
        put(to, key, value);
        zend_string_release(key);
    }
    put_parameters(to);
}

static void put_request(const sink *to)
{
    if (!serving->request->is_fastcgi) {
        for (int i = 0; i < KEY_COUNT; i++) {
            put(to, keys[i], value_of(i));
        }
        put_rest(to);
    } else {
        put_parameters(to);
    }
}

/* Copies the template and fills in this request. False, and nothing is done, if the array is not
 * empty, or if this request needs PHP's own way: a filter, FastCGI, or another environment. */
static bool put_all_at_once(const sink *to)
{
    HashTable *array = Z_ARRVAL_P(to->array);

    if (to->filter || serving->request->is_fastcgi || !template || !environment_template() ||
        !template_fill(array, template)) {
        return false;
    }
    for (int i = 0; i < SHIM_FIELD_COUNT; i++) {
        ZVAL_STR(&array->arData[places[i]].val, field_value(i));
    }
    ZVAL_STR(&array->arData[places[KEY_USER]].val, user_value());
    put_rest(to);
    return true;
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

/* The environment and, as under php-fpm, the request. */
static void put_both(const sink *to)
{
    if (serving->request && put_all_at_once(to)) {
        return;
    }
    environment_import(to->array);
    if (serving->request) {
        put_request(to);
    }
}

/* For $_SERVER, and $_ENV (variables_order with E). */
static void import(zval *array)
{
    const int is_env = Z_ARR_P(array) == Z_ARR(PG(http_globals)[TRACK_VARS_ENV]);

    put_both(&(sink){array, !has_filter() ? 0 : is_env ? PARSE_ENV : PARSE_SERVER});
}

/* For getenv(), which no filter sees. */
static void load(zval *array)
{
    sink to = {array, 0};

    put_both(&to);
}

void variables_register(zval *array)
{
    sink to = {array, has_filter() ? PARSE_SERVER : 0};

    put_both(&to);
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
        if (ZSTR_LEN(keys[i]) == len && memcmp(ZSTR_VAL(keys[i]), name, len) == 0) {
            return (char *)r->field[i].at;
        }
    }
    if (len > 5 && memcmp(name, "HTTP_", 5) == 0) {
        for (size_t i = 0; i < r->header_count; i++) {
            zend_string *key, *value;
            int found;
            if (!headers_is_passed(&r->headers[i].name)) {
                continue;
            }
            key = headers_key(&r->headers[i].name);
            found = ZSTR_LEN(key) == len && memcmp(ZSTR_VAL(key), name, len) == 0;
            zend_string_release(key);
            if (found && (value = headers_joined(r, i))) {
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
        return ZSTR_VAL(constants[KEY_GATEWAY]);
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
    static const char *const fields[] = {
#define SHIM_KEY(name, key) key,
        SHIM_FIELDS(SHIM_KEY)
#undef SHIM_KEY
    };

    for (int i = 0; i < SHIM_FIELD_COUNT; i++) {
        keys[i] = lasting(fields[i]);
    }
    keys[KEY_GATEWAY] = lasting("GATEWAY_INTERFACE");
    keys[KEY_SOFTWARE] = lasting("SERVER_SOFTWARE");
    keys[KEY_STATUS] = lasting("REDIRECT_STATUS");
    keys[KEY_ROLE] = lasting("FCGI_ROLE");
    keys[KEY_USER] = lasting("REMOTE_USER");
    key_https = lasting("HTTPS");
    key_self = lasting("PHP_SELF");
    constants[KEY_GATEWAY] = lasting("CGI/1.1");
    constants[KEY_SOFTWARE] = lasting(shim.config->software);
    constants[KEY_STATUS] = lasting("200");
    constants[KEY_ROLE] = lasting("RESPONDER");
    value_on = lasting("on");
    environment_install();
    php_import_environment_variables = import;
    php_load_environment_variables = load;
}

/* Room in the template for the headers of a browser; with more the array of the request grows. */
enum { USUAL_HEADERS = 24 };

void variables_learn(void)
{
    zval *text, empty;

    if (!environment_learn()) {
        return;
    }
    template = template_new(zend_hash_num_elements(environment_template()) + KEY_COUNT +
                            USUAL_HEADERS);
    ZVAL_EMPTY_STRING(&empty);
    zend_hash_copy(template, environment_template(), NULL);
    for (int i = 0; i < KEY_COUNT; i++) {
        text = zend_hash_update(template, keys[i], &empty);
        if (constants[i]) {
            ZVAL_INTERNED_STR(text, constants[i]);
        }
        places[i] = (uint32_t)((Bucket *)text - template->arData);
    }
}
