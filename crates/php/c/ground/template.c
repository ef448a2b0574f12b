/* Arrays that are made once. A copy is one memcpy(), however many entries there are: no name is
 * hashed again, no text allocated, and the array does not grow step by step. */
#include "ground/template.h"

HashTable *template_new(uint32_t room)
{
    HashTable *template = pemalloc(sizeof(*template), 1);

    zend_hash_init(template, room, NULL, NULL, 1);
    zend_hash_real_init_mixed(template);
    return template;
}

/* As PHP's own interned strings are, but in no table of theirs, which is closed after module
 * start-up. PHP counts no references to it, so the copies of an array need none; and it has its
 * hash, so that nothing writes to it. */
zend_string *template_string(const zend_string *text)
{
    zend_string *copy = zend_string_init(ZSTR_VAL(text), ZSTR_LEN(text), 1);

    zend_string_hash_val(copy);
    GC_ADD_FLAGS(copy, IS_STR_INTERNED | IS_STR_PERMANENT);
    return copy;
}

void template_take(HashTable *template, HashTable *from)
{
    zend_ulong index;
    zend_string *name;
    zval *text, copy;

    ZEND_HASH_FOREACH_KEY_VAL(from, index, name, text) {
        ZVAL_INTERNED_STR(&copy, template_string(Z_STR_P(text)));
        if (name) {
            zend_hash_update(template, template_string(name), &copy);
        } else {
            zend_hash_index_update(template, index, &copy);
        }
    } ZEND_HASH_FOREACH_END();
}

/* As zend_array_dup() copies an array that holds nothing with a count of references. */
bool template_fill(HashTable *array, const HashTable *template)
{
    if (HT_IS_INITIALIZED(array) || array->nTableSize > template->nTableSize) {
        return false;
    }
    zend_hash_extend(array, template->nTableSize, 0);
    memcpy(HT_GET_DATA_ADDR(array), HT_GET_DATA_ADDR(template), HT_USED_SIZE(template));
    array->nNumUsed = template->nNumUsed;
    array->nNumOfElements = template->nNumOfElements;
    array->nNextFreeElement = template->nNextFreeElement;
    return true;
}
