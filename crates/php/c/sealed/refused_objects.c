/* Objects of the boot with which no image is taken.
 *
 * A ZeroMQ context starts its threads with its first socket and ends them with itself. One of the
 * boot starts them in a request and does not end there, so each request that uses it would cost its
 * worker.
 *
 * pq\Connection ends its process when it is used after its connection was lost without a word of
 * the server (pq 2.2.3): it takes the code of each error for a text, and
 * libpq has none for those that it finds by itself. A connection of the boot is always lost so. */
#include "sealed/refused_objects.h"
#include "ground/state.h"

static const struct {
    const char *name; /* in lower case */
    const char *refusal;
} refused[] = {
    {"zmqcontext", "an object of the class ZMQContext is there, and starts threads in each request "
                   "that uses it; make it in the request"},
    {"pq\\connection", "an object of the class pq\\Connection is there, and ends its process when "
                       "its connection is closed; make it in the request"},
};

static int has_one_of(const zend_class_entry *class)
{
    for (uint32_t i = 1; i < EG(objects_store).top; i++) {
        const zend_object *object = EG(objects_store).object_buckets[i];
        if (IS_OBJ_VALID(object) && instanceof_function(object->ce, class)) {
            return 1;
        }
    }
    return 0;
}

const char *refused_objects_refusal(void)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        const char *name = refused[i].name;
        const zend_class_entry *class =
            zend_hash_str_find_ptr(CG(class_table), name, strlen(name));
        if (class && class->type == ZEND_INTERNAL_CLASS && has_one_of(class)) {
            return refused[i].refusal;
        }
    }
    return NULL;
}
