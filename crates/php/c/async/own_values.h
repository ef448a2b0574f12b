/* How a request of async mode begins with values that are more than numbers, and what becomes of
 * them at its end: the functions that rows of own_memory.c name. They are here, and inline, so that
 * the compiler knows the size of each row: calls would cost each request some 200 instructions.
 */
#ifndef TOKAMAK_OWN_VALUES_H
#define TOKAMAK_OWN_VALUES_H

#include <stdlib.h>

#include "ground/compat.h"

static inline void own_begin_values(void *at, size_t size)
{
    for (zval *value = at; (char *)value < (char *)at + size; value++) {
        ZVAL_UNDEF(value);
    }
}

static inline void own_begin_copies(void *at, size_t size)
{
    for (zval *value = at; (char *)value < (char *)at + size; value++) {
        Z_TRY_ADDREF_P(value);
    }
}

/* Destructors run here and below: nothing that goes is in its place any more when they do. */
static inline void own_end_values(void *at, size_t size)
{
    for (zval *value = at; (char *)value < (char *)at + size; value++) {
        zval gone;
        ZVAL_COPY_VALUE(&gone, value);
        ZVAL_UNDEF(value);
        zval_ptr_dtor(&gone);
    }
}

static inline void own_end_string(void *at, size_t size)
{
    (void)size;
    if (*(zend_string **)at) {
        zend_string_release(*(zend_string **)at);
    }
}

static inline void own_begin_output(void *at, size_t size)
{
    (void)at, (void)size;
    php_output_activate();
}

static inline void own_end_output(void *at, size_t size)
{
    (void)at, (void)size;
    php_output_deactivate();
}

static inline void own_begin_handlers(void *at, size_t size)
{
    zend_stack *stack = at;
    zend_stack of_script = *stack;

    (void)size;
    zend_stack_init(stack, of_script.size);
    for (int i = 0; i < of_script.top; i++) {
        zval copy;
        ZVAL_COPY(&copy, (zval *)of_script.elements + i);
        zend_stack_push(stack, &copy);
    }
}

static inline void own_end_handlers(void *at, size_t size)
{
    zend_stack *stack = at, gone = *stack;

    (void)size;
    zend_stack_init(stack, gone.size);
    zend_stack_clean(&gone, (void (*)(void *))ZVAL_PTR_DTOR, 1);
    zend_stack_destroy(&gone);
}

static inline void own_begin_levels(void *at, size_t size)
{
    zend_stack *stack = at;
    zend_stack of_script = *stack;

    (void)size;
    zend_stack_init(stack, of_script.size);
    for (int i = 0; i < of_script.top; i++) {
        zend_stack_push(stack, (int *)of_script.elements + i);
    }
}

static inline void own_end_levels(void *at, size_t size)
{
    (void)size;
    zend_stack_destroy(at);
}

static inline void own_end_text(void *at, size_t size)
{
    char *text = *(char **)at;

    (void)size;
    *(char **)at = NULL;
    if (text) {
        efree(text);
    }
}

static inline void own_begin_session(void *at, size_t size)
{
    (void)at, (void)size;
    own_begin_copies(&PS(mod_user_names), sizeof(PS(mod_user_names)));
    ZVAL_UNDEF(&PS(http_session_vars));
    compat_take_session_start(); /* the script's, which is put back after the request */
    if (PS(mod_user_class_name)) {
        zend_string_addref(PS(mod_user_class_name));
    }
}

static inline void own_end_session(void *at, size_t size)
{
    (void)at, (void)size;
    own_end_values(&PS(mod_user_names), sizeof(PS(mod_user_names)));
    if (PS(mod_user_class_name)) {
        zend_string_release(PS(mod_user_class_name));
    }
}

static inline void own_begin_list(void *at, size_t size)
{
    zend_llist *list = at;

    (void)size;
    zend_llist_init(list, list->size, list->dtor, list->persistent);
}

static inline void own_end_list(void *at, size_t size)
{
    (void)size;
    zend_llist_clean(at);
}

static inline void own_end_ticks(void *at, size_t size)
{
    zend_llist *functions = *(zend_llist **)at;

    (void)size;
    *(zend_llist **)at = NULL;
    if (functions) {
        zend_llist_destroy(functions);
        efree(functions);
    }
}

/* It is the process's memory, because PHP has one for all requests. */
static inline void own_end_memory(void *at, size_t size)
{
    (void)size;
    free(*(void **)at);
}

static inline void own_end_table(void *at, size_t size)
{
    HashTable *table = *(HashTable **)at;

    (void)size;
    if (table) {
        zend_hash_destroy(table);
        FREE_HASHTABLE(table);
    }
}

static inline void own_end_context(void *at, size_t size)
{
    php_stream_context *context = *(php_stream_context **)at;

    (void)size;
    *(php_stream_context **)at = NULL;
    if (context) {
        zend_list_delete(context->res);
    }
}

#endif
