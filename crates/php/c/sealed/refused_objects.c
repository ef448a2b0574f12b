/* Objects of the boot with which no image is taken.
 *
 * A ZeroMQ context starts its threads with its first socket and ends them with itself. One of the
 * boot starts them in a request and does not end there, so each request that uses it would cost its
 * worker. */
#include "sealed/refused_objects.h"
#include "ground/state.h"

const char *refused_objects_refusal(void)
{
    const zend_class_entry *context =
        zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("zmqcontext"));

    for (uint32_t i = 1; context && i < EG(objects_store).top; i++) {
        const zend_object *object = EG(objects_store).object_buckets[i];
        if (IS_OBJ_VALID(object) && instanceof_function(object->ce, context)) {
            return "an object of the class ZMQContext is there, and starts threads in each request "
                   "that uses it; make it in the request";
        }
    }
    return NULL;
}
