/* What a function of PHP is given: objects and streams that it may wait in. */
#include "async/arguments.h"

const zend_class_entry *arguments_class_of(const zend_object *object)
{
    const zend_class_entry *class = object->ce;

    while (class && class->type != ZEND_INTERNAL_CLASS) {
        class = class->parent;
    }
    return class;
}

bool arguments_are_of_extension(const zend_function *function, const zend_object *object)
{
    const zend_class_entry *class = arguments_class_of(object);

    return class && class->info.internal.module == function->internal_function.module;
}

/* Its own object, or the nth that it is given (from 1) and that its extension has made. */
zend_object *arguments_object(zend_execute_data *call, uint32_t n)
{
    zval *given;

    if (n == 0) {
        return Z_TYPE(call->This) == IS_OBJECT ? Z_OBJ(call->This) : NULL;
    }
    given = ZEND_CALL_ARG(call, n);
    ZVAL_DEREF(given);
    return Z_TYPE_P(given) == IS_OBJECT && arguments_are_of_extension(call->func, Z_OBJ_P(given))
               ? Z_OBJ_P(given)
               : NULL;
}

/* A method speaks for its object, and what it is given is something else; but a constructor may be
 * given the connection that its object uses. */
uint32_t arguments_objects(const zend_execute_data *call)
{
    return Z_TYPE(call->This) == IS_OBJECT && !(call->func->common.fn_flags & ZEND_ACC_CTOR)
               ? 0
               : ZEND_CALL_NUM_ARGS(call);
}

static const zend_internal_arg_info *parameter(const zend_internal_function *f, uint32_t n)
{
    if (n <= f->num_args) {
        return &f->arg_info[n - 1];
    }
    return f->fn_flags & ZEND_ACC_VARIADIC ? &f->arg_info[f->num_args] : NULL;
}

/* The stream (or another resource) that it is given as the nth, to do something with it: PHP has no
 * type for that. What only says how to open streams is none. */
zend_resource *arguments_stream(zend_execute_data *call, uint32_t n)
{
    const zend_internal_arg_info *info;
    zval *given = ZEND_CALL_ARG(call, n);

    ZVAL_DEREF(given);
    if (Z_TYPE_P(given) != IS_RESOURCE || Z_RES_TYPE_P(given) == php_le_stream_context()) {
        return NULL;
    }
    info = parameter(&call->func->internal_function, n);
    return info && ZEND_TYPE_IS_SET(info->type) ? NULL : Z_RES_P(given);
}
