/* Persistent resources of the boot (PDO::ATTR_PERSISTENT, pconnect(), pfsockopen(), dba_popen()).
 *
 *   zygote:  look for pointers to one ──► none: end all of them
 *                                     └─► some: leave their memory alone, note the places
 *   worker:  kept connections are open ──► places that led to one of the same name lead to it now
 *
 * A request must not find them in PHP's list, because their sockets are closed. But a value of the
 * boot may hold one by a plain pointer, in a structure that only its extension knows. So the places
 * are found by looking at all of PHP's heap for words that are such a pointer. To end one that is
 * held would leave the value with a pointer to freed memory. Not ending it costs little: its memory
 * stays in the image, and a request that uses it finds that its peer has hung up.
 *
 * mysqli's list has pools of connections, and those that are held are in none: its objects are
 * asked.
 */
#include <stdlib.h>

#include "sealed/persistent.h"
#include "ground/state.h"
#include "sealed/heap.h"
#include "sealed/heap_walk.h"
#include "sealed/persistent_mysqli.h"

enum { LONGEST_HOLDER = 80 };

typedef struct {
    const void *resource;
    zend_string *key;
    int type;
} entry;

/* A word of memory that leads to an entry's resource, or to a connection of its pool. */
typedef struct {
    const void **at, *was; /* what it led to in the boot */
    const entry *of;
    int is_pooled;
    zend_refcounted *holder; /* NULL: it is not known */
    char name[LONGEST_HOLDER];
} place;

/* Of the image. */
static entry *entries;
static place *places;
static size_t entry_count, place_count;
static int has_lost; /* sockets of the boot were closed */

/* ---- who holds one ---- */

static int compare(const void *a, const void *b)
{
    const void *left = ((const entry *)a)->resource, *right = ((const entry *)b)->resource;

    return (left > right) - (left < right);
}

static void list_entries(void)
{
    zend_string *key;
    zval *value;

    entries = pecalloc(zend_hash_num_elements(&EG(persistent_list)), sizeof(*entries), 1);
    ZEND_HASH_FOREACH_STR_KEY_VAL(&EG(persistent_list), key, value) {
        if (key && Z_RES_P(value)->ptr) {
            entries[entry_count++] = (entry){Z_RES_P(value)->ptr, zend_string_dup(key, 1),
                                             Z_RES_P(value)->type};
        }
    } ZEND_HASH_FOREACH_END();
    qsort(entries, entry_count, sizeof(*entries), compare);
}

static int is_in(const void *at, const void *block)
{
    return (uintptr_t)at - (uintptr_t)block < heap_size_of(block);
}

/* Whether a block is the place's, or leads to the one that is. */
static int leads_to(const void *block, const void *at)
{
    const void *const *word = block;

    if (is_in(at, block)) {
        return 1;
    }
    for (size_t i = 0; i < heap_size_of(block) / sizeof(*word); i++) {
        if (is_in(at, word[i])) {
            return 1;
        }
    }
    return 0;
}

static void name_object(place *p, zend_object *holder)
{
    p->holder = (zend_refcounted *)holder;
    snprintf(p->name, sizeof(p->name), "an object of the class %s", ZSTR_VAL(holder->ce->name));
}

static void find_holder(place *p)
{
    zval *value;

    for (uint32_t i = 1; i < EG(objects_store).top; i++) {
        zend_object *object = EG(objects_store).object_buckets[i];
        if (IS_OBJ_VALID(object) &&
            leads_to((const char *)object - object->handlers->offset, p->at)) {
            name_object(p, object);
            return;
        }
    }
    ZEND_HASH_FOREACH_VAL(&EG(regular_list), value) {
        const char *type = zend_rsrc_list_get_rsrc_type(Z_RES_P(value));
        if (leads_to(Z_RES_P(value), p->at)) {
            p->holder = (zend_refcounted *)Z_RES_P(value);
            snprintf(p->name, sizeof(p->name), "a resource (%s)", type ? type : "closed");
            return;
        }
    } ZEND_HASH_FOREACH_END();
    snprintf(p->name, sizeof(p->name), "something");
}

static place *note_place(const void **at, const entry *of)
{
    place *p;

    places = perealloc(places, (place_count + 1) * sizeof(*places), 1);
    p = &places[place_count++];
    *p = (place){.at = at, .was = *at, .of = of};
    return p;
}

static void note_pooled(const void **at, const zend_string *pool, zend_object *holder)
{
    for (size_t i = 0; i < entry_count; i++) {
        if (zend_string_equals(entries[i].key, pool)) {
            place *p = note_place(at, &entries[i]);
            p->is_pooled = 1;
            name_object(p, holder);
        }
    }
}

static void look_at(const void **from, const void **to)
{
    const void *lowest = entries[0].resource, *highest = entries[entry_count - 1].resource;

    for (const void **at = from; at < to; at++) {
        if (*at >= lowest && *at <= highest) {
            const entry *found =
                bsearch(&(entry){.resource = *at}, entries, entry_count, sizeof(*entries), compare);
            if (found) {
                find_holder(note_place(at, found));
            }
        }
    }
}

/* ---- the list ---- */

static int remove_it(zval *value)
{
    (void)value;
    return ZEND_HASH_APPLY_REMOVE;
}

/* The last one first, as PHP does: one may need an earlier one. */
static void end_all(void)
{
    zend_hash_reverse_apply(&EG(persistent_list), remove_it);
}

/* All, and not only those that are held: they may need each other. */
static void forget_all(void)
{
    const dtor_func_t end = EG(persistent_list).pDestructor;

    EG(persistent_list).pDestructor = NULL;
    zend_hash_clean(&EG(persistent_list));
    EG(persistent_list).pDestructor = end;
}

void persistent_take_out(void)
{
    int is_looked_at;

    if (zend_hash_num_elements(&EG(persistent_list)) == 0) {
        return;
    }
    list_entries();
    is_looked_at = entry_count == 0 || heap_visit(look_at) == 0;
    persistent_mysqli_visit(note_pooled);
    if (is_looked_at && place_count == 0) {
        end_all();
    } else {
        forget_all();
    }
}

void persistent_warn(int closed)
{
    char line[LONGEST_HOLDER + 200];

    has_lost = closed > 0;
    for (size_t i = 0; has_lost && i < place_count; i++) {
        int is_named = 0, len;
        for (size_t j = 0; j < i; j++) {
            is_named |= strcmp(places[i].name, places[j].name) == 0;
        }
        if (is_named) {
            continue;
        }
        len = snprintf(line, sizeof(line),
                       "%s of the boot holds a persistent connection, which requests find closed if "
                       "it leads to a server; open it in the request, or keep one of the same name "
                       "with tokamak_keep_connections()",
                       places[i].name);
        rust_log(SHIM_WARN, line, (size_t)len);
    }
}

/* NULL: none of the same name is open. */
static const void *successor_of(const place *p)
{
    const zval *now = zend_hash_find(&EG(persistent_list), p->of->key);

    if (!now || Z_RES_P(now)->type != p->of->type || *p->at != p->was) {
        return NULL;
    }
    return p->is_pooled ? persistent_mysqli_take(Z_RES_P(now)->ptr) : Z_RES_P(now)->ptr;
}

void persistent_hand_over(void)
{
    for (size_t i = 0; i < place_count; i++) {
        const place *p = &places[i];
        const void *successor = successor_of(p);
        if (successor) {
            *p->at = successor;
            if (p->holder) {
                GC_ADDREF(p->holder); /* its end would be the connection's */
            }
        }
    }
}

void persistent_push(void)
{
    int32_t root = walk_push_root("persistent connections of the boot");

    for (size_t i = 0; has_lost && i < place_count; i++) {
        if (*places[i].at != places[i].was) {
            continue; /* another one was handed over */
        }
        walk_push(root, PLAIN, places[i].name, strlen(places[i].name), NULL, sizeof(void *), 0);
    }
}
