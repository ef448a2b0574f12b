/* ext/filter's view of a request's input, in async mode.
 *
 * The extension has a copy of the input of its own, out of reach of others. Requests that are
 * served at once would add to one copy. So the functions that read it are answered here, from the
 * arrays of which the superglobals are made, which each request has of its own; what a script
 * writes to a superglobal is not in them. With the default filter `unsafe_raw` both are the same.
 */
#include "ground/filter_input.h"
#include "ground/override.h"
#include "ground/state.h"

/* As ext/filter numbers them. */
enum { OF_POST, OF_GET, OF_COOKIE, OF_ENV = 4, OF_SERVER, SOURCES };
enum { UNSAFE_RAW = 516, NULL_ON_FAILURE = 134217728 };

static zif_handler real_filter_input, real_filter_has_var, real_filter_input_array;
static zend_function *filter_var, *filter_var_array;

/* The input of that number. NULL: the caller is to call the extension's own function, which reports
 * an unknown number, or serves the script itself. */
static HashTable *source(zend_long number)
{
    static const int tracked[SOURCES] = {
        [OF_POST] = TRACK_VARS_POST, [OF_GET] = TRACK_VARS_GET, [OF_COOKIE] = TRACK_VARS_COOKIE,
        [OF_ENV] = TRACK_VARS_ENV,   [OF_SERVER] = TRACK_VARS_SERVER};
    zval *array;

    if (!serving->own || number < 0 || number >= SOURCES || number == OF_COOKIE + 1) {
        return NULL;
    }
    array = &PG(http_globals)[tracked[number]];
    return Z_TYPE_P(array) == IS_ARRAY ? Z_ARRVAL_P(array) : (HashTable *)&zend_empty_array;
}

/* What a filter returns for a variable that is not set: NULL, or false with the flag
 * FILTER_NULL_ON_FAILURE. */
static void answer_nothing(zval *options, zval *return_value)
{
    zval *flags = options && Z_TYPE_P(options) == IS_ARRAY
                      ? zend_hash_str_find(Z_ARRVAL_P(options), ZEND_STRL("flags"))
                      : options;

    if (flags && (zval_get_long(flags) & NULL_ON_FAILURE)) {
        RETURN_FALSE;
    }
    RETURN_NULL();
}

/* The same, but the option `default` comes first. */
static void answer_missing(zval *options, zval *return_value)
{
    zval *inner = options && Z_TYPE_P(options) == IS_ARRAY
                      ? zend_hash_str_find(Z_ARRVAL_P(options), ZEND_STRL("options"))
                      : NULL;
    zval *fallback = inner && Z_TYPE_P(inner) == IS_ARRAY
                         ? zend_hash_str_find(Z_ARRVAL_P(inner), ZEND_STRL("default"))
                         : NULL;

    if (fallback) {
        RETURN_COPY_DEREF(fallback);
    }
    answer_nothing(options, return_value);
}

static ZEND_NAMED_FUNCTION(own_filter_input)
{
    zend_long from, filter = UNSAFE_RAW;
    zend_string *name;
    zval *options = NULL, *found, arguments[3];
    HashTable *input;

    ZEND_PARSE_PARAMETERS_START(2, 4)
        Z_PARAM_LONG(from)
        Z_PARAM_STR(name)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(filter)
        Z_PARAM_ZVAL(options)
    ZEND_PARSE_PARAMETERS_END();

    input = source(from);
    if (!input) {
        real_filter_input(INTERNAL_FUNCTION_PARAM_PASSTHRU);
        return;
    }
    found = zend_symtable_find(input, name);
    if (!found) {
        answer_missing(options, return_value);
        return;
    }
    ZVAL_COPY_VALUE(&arguments[0], found);
    ZVAL_LONG(&arguments[1], filter);
    if (options) {
        ZVAL_COPY_VALUE(&arguments[2], options);
    }
    zend_call_known_function(filter_var, NULL, NULL, return_value, options ? 3 : 2, arguments,
                             NULL);
}

static ZEND_NAMED_FUNCTION(own_filter_has_var)
{
    zend_long from;
    zend_string *name;
    HashTable *input;

    ZEND_PARSE_PARAMETERS_START(2, 2)
        Z_PARAM_LONG(from)
        Z_PARAM_STR(name)
    ZEND_PARSE_PARAMETERS_END();

    input = source(from);
    if (!input) {
        real_filter_has_var(INTERNAL_FUNCTION_PARAM_PASSTHRU);
        return;
    }
    RETURN_BOOL(zend_symtable_exists(input, name));
}

static ZEND_NAMED_FUNCTION(own_filter_input_array)
{
    zend_long from;
    zval *options = NULL, arguments[3];
    bool adds_empty = true;
    HashTable *input;

    ZEND_PARSE_PARAMETERS_START(1, 3)
        Z_PARAM_LONG(from)
        Z_PARAM_OPTIONAL
        Z_PARAM_ZVAL(options)
        Z_PARAM_BOOL(adds_empty)
    ZEND_PARSE_PARAMETERS_END();

    input = source(from);
    if (!input) {
        real_filter_input_array(INTERNAL_FUNCTION_PARAM_PASSTHRU);
        return;
    }
    if (zend_hash_num_elements(input) == 0) {
        answer_nothing(options, return_value);
        return;
    }
    ZVAL_ARR(&arguments[0], input);
    if (options) {
        ZVAL_COPY_VALUE(&arguments[1], options);
    } else {
        ZVAL_LONG(&arguments[1], UNSAFE_RAW);
    }
    ZVAL_BOOL(&arguments[2], adds_empty);
    zend_call_known_function(filter_var_array, NULL, NULL, return_value, 3, arguments, NULL);
}

void filter_input_watch(void)
{
    filter_var = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("filter_var"));
    filter_var_array = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("filter_var_array"));
    if (!filter_var || !filter_var_array) {
        return;
    }
    override_function(NULL, "filter_input", &real_filter_input, own_filter_input);
    override_function(NULL, "filter_has_var", &real_filter_has_var, own_filter_has_var);
    override_function(NULL, "filter_input_array", &real_filter_input_array,
                      own_filter_input_array);
}
