/* Stands before functions of PHP. */
#include "ground/override.h"

zend_function *override_find(const char *class, const char *name)
{
    HashTable *functions = CG(function_table);

    if (class) {
        zend_class_entry *ce = zend_hash_str_find_ptr(CG(class_table), class, strlen(class));
        functions = ce ? &ce->function_table : NULL;
    }
    return functions ? zend_hash_str_find_ptr(functions, name, strlen(name)) : NULL;
}

void override_function(const char *class, const char *name, zif_handler *real, zif_handler ours)
{
    zend_function *f = override_find(class, name);

    if (f && f->type == ZEND_INTERNAL_FUNCTION) {
        *real = f->internal_function.handler;
        f->internal_function.handler = ours;
    }
}
