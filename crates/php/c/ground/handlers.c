/* Error and exception handlers of a worker script, and the stacks of those that they replaced. */
#include "ground/handlers.h"
#include "ground/compat.h"

typedef struct {
    zval current;
    zval *stack;
    int *levels; /* NULL for exception handlers */
    int count;
    int level;
} handlers;

/* Of the script, when its loop began. */
static handlers error, exception;

static int is_same_callable(const zval *a, const zval *b)
{
    if (Z_TYPE_P(a) != Z_TYPE_P(b)) {
        return 0;
    }
    if (Z_TYPE_P(a) == IS_STRING) {
        return zend_string_equals(Z_STR_P(a), Z_STR_P(b));
    }
    return Z_TYPE_P(a) == IS_UNDEF || Z_PTR_P(a) == Z_PTR_P(b);
}

static void learn(handlers *to, zval *current, zend_stack *stack, zend_stack *levels, int level)
{
    ZVAL_COPY(&to->current, current);
    to->level = level;
    to->count = zend_stack_count(stack);
    to->stack = safe_emalloc((size_t)to->count, sizeof(zval), 1);
    to->levels = levels ? safe_emalloc((size_t)to->count, sizeof(int), 1) : NULL;
    for (int i = 0; i < to->count; i++) {
        ZVAL_COPY(&to->stack[i], (zval *)zend_stack_base(stack) + i);
        if (levels) {
            to->levels[i] = ((int *)zend_stack_base(levels))[i];
        }
    }
}

static void restore(handlers *from, zval *current, zend_stack *stack, zend_stack *levels)
{
    int same = is_same_callable(&from->current, current) && zend_stack_count(stack) == from->count;

    for (int i = 0; same && i < from->count; i++) {
        same = is_same_callable(&from->stack[i], (zval *)zend_stack_base(stack) + i);
    }
    if (same) {
        return;
    }
    zval gone = *current;
    ZVAL_COPY(current, &from->current);
    zval_ptr_dtor(&gone);
    zend_stack_clean(stack, (void (*)(void *))ZVAL_PTR_DTOR, 1);
    if (levels) {
        zend_stack_clean(levels, NULL, 1);
    }
    for (int i = 0; i < from->count; i++) {
        zval copy;
        ZVAL_COPY(&copy, &from->stack[i]);
        zend_stack_push(stack, &copy);
        if (levels) {
            zend_stack_push(levels, &from->levels[i]);
        }
    }
}

static void forget(handlers *h)
{
    zval_ptr_dtor(&h->current);
    for (int i = 0; i < h->count; i++) {
        zval_ptr_dtor(&h->stack[i]);
    }
    efree(h->stack);
    if (h->levels) {
        efree(h->levels);
    }
}

void handlers_learn(void)
{
    learn(&error, &EG(user_error_handler), &EG(user_error_handlers),
          &EG(user_error_handlers_error_reporting), EG(user_error_handler_error_reporting));
    learn(&exception, &EG(user_exception_handler), &EG(user_exception_handlers), NULL, 0);
}

void handlers_restore(void)
{
    restore(&error, &EG(user_error_handler), &EG(user_error_handlers),
            &EG(user_error_handlers_error_reporting));
    EG(user_error_handler_error_reporting) = error.level;
    restore(&exception, &EG(user_exception_handler), &EG(user_exception_handlers), NULL);
}

void handlers_forget(void)
{
    forget(&error);
    forget(&exception);
}
