/* The event loops of PHP libraries: each request of async mode has its own.
 *
 * Revolt and ReactPHP keep the one loop of a process in a static property. With one for all, a
 * request that runs it would run the callbacks of others, and wait until theirs are done. So the
 * property is exchanged with the request: each finds none, and the library makes one for it, as at
 * the beginning of a process. What libraries keep by loop (amphp's resolver of names, for one) is
 * the request's own by that, too. Revolt keeps values by Fiber as well, and a Fiber serves one
 * request after another.
 */
#include "async/own_loops.h"

/* `begins`: what the property is before its first use. */
static struct {
    const char *class, *property;
    uint32_t begins;
    zval *at; /* NULL: the class is not there so far */
} loops[OWN_LOOPS] = {
    {"revolt\\eventloop", "driver", IS_UNDEF, NULL},
    {"revolt\\eventloop\\fiberlocal", "localStorage", IS_NULL, NULL},
    {"react\\eventloop\\loop", "instance", IS_NULL, NULL},
    {"react\\eventloop\\loop", "stopped", IS_FALSE, NULL},
};

static bool is_exchanging;

static zval *static_property(const char *class, const char *property)
{
    zend_class_entry *ce = zend_hash_str_find_ptr(EG(class_table), class, strlen(class));
    zend_property_info *info =
        ce ? zend_hash_str_find_ptr(&ce->properties_info, property, strlen(property)) : NULL;

    if (!info || !(info->flags & ZEND_ACC_STATIC)) {
        return NULL;
    }
    if (!CE_STATIC_MEMBERS(ce)) {
        zend_class_init_statics(ce);
    }
    return CE_STATIC_MEMBERS(ce) ? CE_STATIC_MEMBERS(ce) + info->offset : NULL;
}

void own_loops_learn(void)
{
    for (size_t i = 0; i < OWN_LOOPS && is_exchanging; i++) {
        if (!loops[i].at) {
            loops[i].at = static_property(loops[i].class, loops[i].property);
        }
    }
}

void own_loops_note_class(const zend_string *lower_name)
{
    for (size_t i = 0; i < OWN_LOOPS; i++) {
        if (zend_string_equals_cstr(lower_name, loops[i].class, strlen(loops[i].class))) {
            own_loops_learn();
            return;
        }
    }
}

void own_loops_begin(void)
{
    is_exchanging = true;
    own_loops_learn();
}

void own_loops_forget(void)
{
    is_exchanging = false;
    for (size_t i = 0; i < OWN_LOOPS; i++) {
        loops[i].at = NULL;
    }
}

void own_loops_exchange(own_loops kept)
{
    for (size_t i = 0; i < OWN_LOOPS; i++) {
        if (loops[i].at) {
            zval value = *loops[i].at;

            *loops[i].at = kept[i];
            kept[i] = value;
            if (Z_ISUNDEF_P(loops[i].at)) {
                Z_TYPE_INFO_P(loops[i].at) = loops[i].begins;
            }
        }
    }
}

/* The script's are in place before the request's go, which may run its destructors. */
void own_loops_end(own_loops kept)
{
    own_loops_exchange(kept);
    for (size_t i = 0; i < OWN_LOOPS; i++) {
        zval value = kept[i];

        ZVAL_UNDEF(&kept[i]);
        zval_ptr_dtor(&value);
    }
}
