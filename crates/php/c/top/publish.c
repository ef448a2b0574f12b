/* What scripts publish becomes the fields of a form, which the hub judges. */
#include "php.h"
#include "ext/spl/spl_exceptions.h"
#include "zend_exceptions.h"
#include "zend_smart_str.h"

#include "shim/request.h"
#include "top/publish.h"

/* As tokamak_sys::hub reads it. A length that does not fit is not read: an update may have only as
 * many bytes as a message. */
static void append(smart_str *update, const char *name, const char *value, size_t len)
{
    const uint32_t length = (uint32_t)len;

    smart_str_appendl(update, name, strlen(name) + 1);
    smart_str_appendl(update, (const char *)&length, sizeof(length));
    smart_str_appendl(update, value, len);
}

static void append_text(smart_str *update, const char *name, const zend_string *value)
{
    append(update, name, ZSTR_VAL(value), ZSTR_LEN(value));
}

/* False: one of them is no text, which was thrown. */
static bool append_topics(smart_str *update, zend_string *topic, HashTable *topics)
{
    zval *each;

    if (topic) {
        append_text(update, "topic", topic);
        return true;
    }
    ZEND_HASH_FOREACH_VAL(topics, each) {
        ZVAL_DEREF(each);
        if (Z_TYPE_P(each) != IS_STRING) {
            zend_argument_type_error(1, "must be a string or an array of strings");
            return false;
        }
        append_text(update, "topic", Z_STR_P(each));
    }
    ZEND_HASH_FOREACH_END();
    return true;
}

static void publish(smart_str *update, zval *return_value)
{
    shim_text answer = {0};

    if (rust_publish(ZSTR_VAL(update->s), ZSTR_LEN(update->s), &answer)) {
        RETURN_STRINGL(answer.at, answer.len);
    }
    zend_throw_exception(spl_ce_RuntimeException, answer.at ? answer.at : "there is no hub here", 0);
}

ZEND_FUNCTION(mercure_publish)
{
    zend_string *topic, *data = NULL, *id = NULL, *type = NULL;
    HashTable *topics;
    bool is_private = false, has_no_retry = true;
    zend_long retry = 0;
    smart_str update = {0};

    ZEND_PARSE_PARAMETERS_START(1, 6)
        Z_PARAM_ARRAY_HT_OR_STR(topics, topic)
        Z_PARAM_OPTIONAL
        Z_PARAM_STR(data)
        Z_PARAM_BOOL(is_private)
        Z_PARAM_STR_OR_NULL(id)
        Z_PARAM_STR_OR_NULL(type)
        Z_PARAM_LONG_OR_NULL(retry, has_no_retry)
    ZEND_PARSE_PARAMETERS_END();

    if (append_topics(&update, topic, topics)) {
        append_text(&update, "data", data ? data : ZSTR_EMPTY_ALLOC());
        if (is_private) {
            append(&update, "private", "", 0);
        }
        if (id) {
            append_text(&update, "id", id);
        }
        if (type) {
            append_text(&update, "type", type);
        }
        if (!has_no_retry) {
            char digits[MAX_LENGTH_OF_LONG];
            int length = snprintf(digits, sizeof(digits), ZEND_LONG_FMT, retry);
            append(&update, "retry", digits, (size_t)length);
        }
        publish(&update, return_value);
    }
    smart_str_free(&update);
}

ZEND_FUNCTION(tokamak_publish)
{
    zend_string *topic, *data;
    HashTable *topics;
    smart_str update = {0};

    ZEND_PARSE_PARAMETERS_START(2, 2)
        Z_PARAM_ARRAY_HT_OR_STR(topics, topic)
        Z_PARAM_STR(data)
    ZEND_PARSE_PARAMETERS_END();

    if (append_topics(&update, topic, topics)) {
        append_text(&update, "data", data);
        publish(&update, return_value);
    }
    smart_str_free(&update);
}
