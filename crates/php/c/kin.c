/* Objects of PHP that use one connection.
 *
 * No driver is asked: an object that opens a connection, or waits for one, founds a kin (in_use.c
 * sees it do that), and what its functions return joins it. A table of weak references says whose
 * kin an object is, so PHP itself takes out those that it destroys.
 *
 * While a request waits inside of one of them, the others must not be destroyed by those who run
 * meanwhile: a destructor speaks to the server, too (DEALLOCATE of a prepared statement, the end of
 * a result that was not read). So they are held that long, and what was held last is destroyed when
 * the function that waited has returned.
 */
#include <stdlib.h>

#include <Zend/zend_weakrefs.h>

#include "kin.h"

typedef struct kin_member {
    zend_object *object;
    kin *of;
    struct kin_member *next, **before;
    struct kin_member *next_last;
    bool is_held;
    bool is_last; /* nobody else held it any more when it was let go */
} kin_member;

static struct {
    HashTable members; /* by object */
    kin_member *last;  /* those that are the last to be held */
    kin **by_descriptor;
    int descriptors; /* room for them */
} all_kin;

/* ---- descriptors ---- */

kin *kin_of_descriptor(int fd)
{
    return fd >= 0 && fd < all_kin.descriptors ? all_kin.by_descriptor[fd] : NULL;
}

void kin_note_closed(int fd)
{
    kin *all = kin_of_descriptor(fd);

    if (all) {
        all->descriptor = -1;
        all_kin.by_descriptor[fd] = NULL;
    }
}

static void make_room_for(int fd)
{
    const int room = fd < 64 ? 64 : fd * 2;
    kin **more;

    if (fd < all_kin.descriptors) {
        return;
    }
    more = realloc(all_kin.by_descriptor, (size_t)room * sizeof(*more));
    if (!more) {
        abort();
    }
    memset(more + all_kin.descriptors, 0,
           (size_t)(room - all_kin.descriptors) * sizeof(*more));
    all_kin.by_descriptor = more;
    all_kin.descriptors = room;
}

void kin_take_descriptor(kin *all, int fd)
{
    if (fd < 0 || all->descriptor == fd) {
        return;
    }
    make_room_for(fd);
    kin_note_closed(all->descriptor);
    kin_note_closed(fd);
    all->descriptor = fd;
    all_kin.by_descriptor[fd] = all;
}

/* ---- objects ---- */

/* Its object is being destroyed. */
static void forget(zval *kept)
{
    kin_member *member = Z_PTR_P(kept);
    kin *of = member->of;

    *member->before = member->next;
    if (member->next) {
        member->next->before = member->before;
    }
    free(member);
    if (!of->members) {
        kin_note_closed(of->descriptor);
        free(of);
    }
}

void kin_watch(void)
{
    zend_hash_init(&all_kin.members, 0, NULL, forget, 1);
}

static kin_member *find(const zend_object *object)
{
    return OBJ_FLAGS(object) & IS_OBJ_WEAKLY_REFERENCED
               ? zend_hash_index_find_ptr(&all_kin.members, zend_object_to_weakref_key(object))
               : NULL;
}

kin *kin_of(const zend_object *object)
{
    const kin_member *member = find(object);

    return member ? member->of : NULL;
}

void kin_join(kin *all, zend_object *object)
{
    kin_member *member;

    if (find(object)) {
        return;
    }
    member = calloc(1, sizeof(*member));
    if (!member) {
        abort();
    }
    *member = (kin_member){.object = object, .of = all, .next = all->members};
    if (member->next) {
        member->next->before = &member->next;
    }
    member->before = &all->members;
    all->members = member;
    zend_weakrefs_hash_add_ptr(&all_kin.members, object, member);
}

kin *kin_found(zend_object *object)
{
    kin *all = kin_of(object);

    if (!all) {
        all = calloc(1, sizeof(*all));
        if (!all) {
            abort();
        }
        all->descriptor = -1;
        kin_join(all, object);
    }
    return all;
}

void kin_hold(kin *all)
{
    for (kin_member *member = all->members; member; member = member->next) {
        /* One that is being destroyed waits by itself. */
        if (!member->is_held && !(OBJ_FLAGS(member->object) & IS_OBJ_FREE_CALLED)) {
            GC_ADDREF(member->object);
            member->is_held = true;
        }
    }
}

void kin_let_go(kin *all)
{
    for (kin_member *member = all->members; member; member = member->next) {
        if (!member->is_held || member->is_last) {
            continue;
        }
        if (GC_REFCOUNT(member->object) > 1) {
            member->is_held = false;
            OBJ_RELEASE(member->object);
        } else {
            member->is_last = true;
            member->next_last = all_kin.last;
            all_kin.last = member;
        }
    }
}

void kin_settle(void)
{
    kin_member **at = &all_kin.last, *member;

    while ((member = *at)) {
        if (member->of->user) {
            at = &member->next_last;
            continue;
        }
        *at = member->next_last;
        member->is_held = member->is_last = false;
        /* Its destructor may let others run: they may come here, too. */
        OBJ_RELEASE(member->object);
        at = &all_kin.last;
    }
}
