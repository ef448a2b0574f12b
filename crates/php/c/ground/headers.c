/* The request's headers, as php-fpm behind nginx has them: for $_SERVER, getallheaders() and
 * $_COOKIE. */
#include <ctype.h>
#include <string.h>

#include "ground/headers.h"
#include "ground/gateway.h"
#include "ground/state.h"

/* nginx's rule: a name of other characters is dropped. An underscore could spoof a dash
 * ("X_Real_Ip"), a dot or a bracket would be mangled by PHP. */
static const bool is_passed[256] = {
    ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['0' ... '9'] = true, ['-'] = true};

/* "Proxy" would become HTTP_PROXY, which libraries take for a setting. */
int headers_is_passed(const shim_text *name)
{
    for (size_t i = 0; i < name->len; i++) {
        if (!is_passed[(unsigned char)name->at[i]]) {
            return 0;
        }
    }
    return name->len > 0 && !(name->len == 5 && strncasecmp(name->at, "proxy", 5) == 0);
}

static int is_same(const shim_text *a, const shim_text *b)
{
    return a->len == b->len && strncasecmp(a->at, b->at, a->len) == 0;
}

zend_string *headers_joined(const shim_request *request, size_t n)
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

zend_string *headers_key(const shim_text *name)
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
void headers_list(zval *array)
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
        if (headers_is_passed(&r->headers[i].name) && (value = headers_joined(r, i))) {
            add_header(array, header_name(r->headers[i].name.at, r->headers[i].name.len, '-'),
                       value);
        }
    }
}

char *headers_cookies(void)
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
            all = headers_joined(r, i);
            serving->joined_cookie = estrndup(ZSTR_VAL(all), ZSTR_LEN(all));
            zend_string_release(all);
            return serving->joined_cookie;
        }
    }
    return NULL;
}
