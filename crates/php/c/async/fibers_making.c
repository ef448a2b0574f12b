/* How async mode makes Fibers, and calls their methods. */
#include "async/fibers_making.h"

void fibers_call(zend_fiber *fiber, const char *method, zval *argument)
{
    zval result;

    ZVAL_UNDEF(&result);
    zend_call_method(&fiber->std, zend_ce_fiber, NULL, method, strlen(method), &result,
                     argument ? 1 : 0, argument, NULL);
    zval_ptr_dtor(&result);
    if (fiber->context.status == ZEND_FIBER_STATUS_SUSPENDED) {
        /* The frame of the method has gone; a backtrace must not walk into it. */
        fiber->stack_bottom->prev_execute_data = NULL;
    }
}

ZEND_BEGIN_ARG_INFO(no_arguments, 0)
ZEND_END_ARG_INFO()

void fibers_make_function(zend_internal_function *made, const char *name, zif_handler handler)
{
    *made = (zend_internal_function){.type = ZEND_INTERNAL_FUNCTION,
                                     .handler = handler,
                                     .function_name = zend_string_init(name, strlen(name), 0),
                                     .arg_info = (zend_internal_arg_info *)no_arguments + 1};
}

void fibers_make(zval *object, zend_internal_function *function)
{
    zend_fiber *fiber;

    zval_ptr_dtor(object);
    object_init_ex(object, zend_ce_fiber);
    fiber = (zend_fiber *)Z_OBJ_P(object);
    fiber->fci = (zend_fcall_info){.size = sizeof(zend_fcall_info)};
    fiber->fci_cache.function_handler = (zend_function *)function;
    fibers_call(fiber, "start", NULL);
}
