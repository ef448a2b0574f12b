/* PHP's stack as text, for the log: an exception knows how to say it. */
#include "async/stacks.h"

zend_string *stacks_text(const zend_execute_data *frames)
{
    zend_execute_data *running = EG(current_execute_data);
    zval exception, calls;
    zend_string *text;

    EG(current_execute_data) = (zend_execute_data *)frames;
    object_init_ex(&exception, zend_ce_exception);
    text = strpprintf(0, "%s:%u\n", zend_get_executed_filename(), zend_get_executed_lineno());
    EG(current_execute_data) = running;
    zend_call_method_with_0_params(Z_OBJ(exception), zend_ce_exception, NULL, "gettraceasstring",
                                   &calls);
    if (Z_TYPE(calls) == IS_STRING) {
        zend_string *whole = zend_string_concat2(ZSTR_VAL(text), ZSTR_LEN(text), Z_STRVAL(calls),
                                                 Z_STRLEN(calls));
        zend_string_release(text);
        text = whole;
    }
    zval_ptr_dtor(&calls);
    zval_ptr_dtor(&exception);
    return text;
}
