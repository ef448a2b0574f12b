/* The queue of what was found, and how arrays, closures and objects are walked. Runs no PHP
 * code. */
#include <string.h>

#include "sealed/heap_walk.h"

#include <Zend/zend_closures.h>

walk_state walk;

uint64_t walk_digest_of(const char *at, size_t len)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */

    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ (unsigned char)at[i]) * 1099511628211u;
    }
    return hash;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    return (a ^ b) * 1099511628211u;
}

/* ---- the queue ---- */

int32_t walk_push(int32_t parent, char style, const char *name, size_t len, const zval *value,
                    uint64_t size, uint64_t digest)
{
    if (walk.tail == MOST_NODES) {
        return -1;
    }
    walk.queue[walk.tail] = (node){name, value, size, digest, (uint32_t)len, 0, parent, style};
    return (int32_t)walk.tail++;
}

int32_t walk_push_root(const char *name)
{
    return walk_push(-1, ROOT, name, strlen(name), NULL, 0, 0);
}

void walk_push_value(int32_t parent, char style, const zend_string *name, const zval *value)
{
    if (Z_TYPE_P(value) == IS_INDIRECT) {
        value = Z_INDIRECT_P(value);
    }
    if (Z_TYPE_P(value) != IS_UNDEF) {
        walk_push(parent, style, ZSTR_VAL(name), ZSTR_LEN(name), value, 0, 0);
    }
}

void walk_push_element(int32_t parent, zend_ulong index, const zval *value)
{
    char *text = walk.names + walk.names_len;
    int len;

    if (walk.names_len + 24 > NAMES) {
        return;
    }
    len = sprintf(text, ZEND_LONG_FMT, (zend_long)index);
    walk.names_len += (size_t)len;
    walk_push(parent, INDEX, text, (size_t)len, value, 0, 0);
}

void walk_push_table(int32_t parent, char style, HashTable *table)
{
    zend_ulong index;
    zend_string *key;
    zval *value;

    ZEND_HASH_FOREACH_KEY_VAL(table, index, key, value) {
        if (key) {
            walk_push_value(parent, style, key, value);
        } else {
            walk_push_element(parent, index, value);
        }
    } ZEND_HASH_FOREACH_END();
}

void walk_push_text(int32_t parent, const char *name, size_t len, const char *content,
                      size_t content_len)
{
    walk_push(parent, PLAIN, name, len, NULL, len + content_len,
              walk_digest_of(content, content_len));
}

static size_t place_of(const void *at)
{
    size_t place = ((uintptr_t)at >> 3) * 0x9e3779b97f4a7c15u % SEEN;

    while (walk.seen[place] && walk.seen[place] != at) {
        place = (place + 1) % SEEN;
    }
    return place;
}

int walk_saw(const void *at)
{
    return walk.seen[place_of(at)] != NULL;
}

/* Whether it is met for the first time. */
static int is_new(const void *at)
{
    size_t place = place_of(at);

    if (walk.seen[place]) {
        return 0;
    }
    walk.seen[place] = at;
    return 1;
}

/* ---- values ---- */

static uint64_t table_size(const HashTable *table)
{
    if (HT_FLAGS(table) & HASH_FLAG_UNINITIALIZED) {
        return sizeof(*table);
    }
    /* What is used, not what is reserved: that grows in leaps. */
    return sizeof(*table) +
           table->nNumOfElements *
               (HT_FLAGS(table) & HASH_FLAG_PACKED ? sizeof(zval) : sizeof(Bucket) + 4);
}

static uint64_t table_digest(HashTable *table)
{
    uint64_t digest = table->nNumOfElements;
    zend_ulong index;
    zend_string *key;
    zval *value;

    ZEND_HASH_FOREACH_KEY_VAL(table, index, key, value) {
        (void)value;
        digest = mix(digest, key ? walk_digest_of(ZSTR_VAL(key), ZSTR_LEN(key)) : index);
    } ZEND_HASH_FOREACH_END();
    return digest;
}

/* The digest of a table depends on its keys alone; its values have digests of their own. */
static void walk_array(int32_t id, node *n, HashTable *table)
{
    n->digest = table_digest(table);
    if (GC_FLAGS(table) & GC_IMMUTABLE) {
        return; /* a literal of the code */
    }
    n->size = table_size(table);
    walk_push_table(id, KEY, table);
}

/* What a closure has bound, and its own static variables. */
static void walk_closure(int32_t id, node *n, zend_object *object)
{
    zval *this = zend_get_closure_this_ptr(&(zval){.value.obj = object});
    const zend_function *function = zend_get_closure_method_def(object);
    HashTable *statics;

    if (Z_TYPE_P(this) == IS_OBJECT) {
        walk_push(id, VARIABLE, "this", 4, this, 0, 0);
    }
    if (function->type != ZEND_USER_FUNCTION) {
        return;
    }
    n->digest = mix(n->digest, function->op_array.line_start);
    statics = ZEND_MAP_PTR_GET(function->op_array.static_variables_ptr);
    if (statics && is_new(statics)) {
        n->size += GC_FLAGS(statics) & GC_IMMUTABLE ? 0 : table_size(statics);
        walk_push_table(id, VARIABLE, statics);
    }
}

static void walk_object(int32_t id, node *n, zend_object *object)
{
    zend_class_entry *ce = object->ce;
    zval *values;
    HashTable *table;
    int count;

    n->handle = object->handle;
    n->digest = walk_digest_of(ZSTR_VAL(ce->name), ZSTR_LEN(ce->name));
    n->size =
        (uint64_t)object->handlers->offset + sizeof(zend_object) + zend_object_properties_size(ce);
    for (int i = 0; i < ce->default_properties_count; i++) {
        zend_property_info *info = ce->properties_info_table ? ce->properties_info_table[i] : NULL;
        if (info && Z_TYPE(object->properties_table[i]) != IS_UNDEF) {
            const char *class, *name;
            size_t len;
            zend_unmangle_property_name_ex(info->name, &class, &name, &len);
            walk_push(id, PROPERTY, name, len, &object->properties_table[i], 0, 0);
        }
    }
    if (object->properties && is_new(object->properties)) {
        zend_string *key;
        zval *value;
        n->size += table_size(object->properties);
        ZEND_HASH_FOREACH_STR_KEY_VAL(object->properties, key, value) {
            if (key && Z_TYPE_P(value) != IS_INDIRECT) {
                walk_push_value(id, PROPERTY, key, value);
            }
        } ZEND_HASH_FOREACH_END();
    }
    if (ce == zend_ce_closure) {
        walk_closure(id, n, object);
        return;
    }
    /* What the class keeps beside its properties. zend_std_get_gc() itself would build properties
     * in order to show them. */
    if (object->handlers->get_gc != zend_std_get_gc) {
        values = NULL;
        count = 0;
        table = object->handlers->get_gc(object, &values, &count);
        for (int i = 0; i < count; i++) {
            zval *value = &values[i];
            int is_property = value >= object->properties_table &&
                              value < object->properties_table + ce->default_properties_count;
            /* The buffer is the next object's too: only what a value points to lives on. */
            if (!is_property && Z_REFCOUNTED_P(value) &&
                walk.names_len + sizeof(zval) + 24 <= NAMES) {
                zval *copy;
                walk.names_len = (walk.names_len + 15) & ~(size_t)15;
                copy = (zval *)(walk.names + walk.names_len);
                walk.names_len += sizeof(zval);
                ZVAL_COPY_VALUE(copy, value);
                walk_push_element(id, (zend_ulong)i, copy);
            }
        }
        if (table && table != object->properties && is_new(table)) {
            n->size += table_size(table);
            walk_push_table(id, KEY, table);
        }
    }
}

void walk_value(int32_t id, node *n)
{
    const zval *value = n->value;

    if (Z_TYPE_P(value) == IS_INDIRECT) {
        value = Z_INDIRECT_P(value);
    }
    if (Z_ISREF_P(value)) {
        if (!is_new(Z_REF_P(value))) {
            return;
        }
        n->size = sizeof(zend_reference);
        value = Z_REFVAL_P(value);
    }
    n->digest = Z_TYPE_P(value);
    switch (Z_TYPE_P(value)) {
    case IS_LONG:
    case IS_DOUBLE:
        n->digest = mix(n->digest, (uint64_t)Z_LVAL_P(value));
        break;
    case IS_STRING:
        n->digest = walk_digest_of(Z_STRVAL_P(value), Z_STRLEN_P(value));
        if (!ZSTR_IS_INTERNED(Z_STR_P(value)) && is_new(Z_STR_P(value))) {
            n->size += ZEND_MM_ALIGNED_SIZE(_ZSTR_STRUCT_SIZE(Z_STRLEN_P(value)));
        }
        break;
    case IS_ARRAY:
        if (is_new(Z_ARR_P(value))) {
            uint64_t of_reference = n->size;
            walk_array(id, n, Z_ARR_P(value));
            n->size += of_reference;
        }
        break;
    case IS_OBJECT:
        if (is_new(Z_OBJ_P(value))) {
            uint64_t of_reference = n->size;
            walk_object(id, n, Z_OBJ_P(value));
            n->size += of_reference;
        }
        break;
    case IS_RESOURCE:
        n->digest = mix(n->digest, (uint64_t)Z_RES_P(value)->handle);
        break;
    default:
        break;
    }
}
