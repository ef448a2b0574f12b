/* Persistent connections of mysqli ("p:").
 *
 * PHP's list has a pool for each host, user and database. A connection is in it while no script
 * uses it, and the object that holds one has the pool's name. */
#include "sealed/persistent_mysqli.h"

#if __has_include(<ext/mysqli/php_mysqli_structs.h>)
#include <Zend/zend_ptr_stack.h>
#include <ext/mysqli/php_mysqli_structs.h>

static MY_MYSQL *link_of(zend_object *object)
{
    const MYSQLI_RESOURCE *resource = php_mysqli_fetch_object(object)->ptr;

    return resource ? resource->ptr : NULL;
}

void persistent_mysqli_visit(void (*visit)(const void **at, const zend_string *pool,
                                           zend_object *holder))
{
    const zend_class_entry *class = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("mysqli"));

    for (uint32_t i = 1; class && i < EG(objects_store).top; i++) {
        zend_object *object = EG(objects_store).object_buckets[i];
        if (IS_OBJ_VALID(object) && instanceof_function(object->ce, class)) {
            MY_MYSQL *link = link_of(object);
            if (link && link->mysql && link->persistent && link->hash_key) {
                visit((const void **)&link->mysql, link->hash_key, object);
            }
        }
    }
}

const void *persistent_mysqli_take(void *pool)
{
    zend_ptr_stack *free_links = &((mysqli_plist_entry *)pool)->free_links;

    return zend_ptr_stack_num_elements(free_links) > 0 ? zend_ptr_stack_pop(free_links) : NULL;
}

#else /* PHP was built without it */

void persistent_mysqli_visit(void (*visit)(const void **at, const zend_string *pool,
                                           zend_object *holder))
{
    (void)visit;
}

const void *persistent_mysqli_take(void *pool)
{
    (void)pool;
    return NULL;
}

#endif
