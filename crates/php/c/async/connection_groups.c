/* Objects of PHP that use one connection.
 *
 * No driver is asked: an object that opens a connection, or waits for one, founds a group (in_use.c
 * sees it do that), and what its functions return joins it. A table of weak references says whose
 * group an object is in, so PHP itself takes out those that it destroys.
 *
 * While a request waits inside of one of them, the others must not be destroyed by those who run
 * meanwhile: a destructor speaks to the server, too (DEALLOCATE of a prepared statement, the end of
 * a result that was not read). So they are held that long, and what was held last is destroyed when
 * the function that waited has returned.
 */
#include "async/connection_groups.h"

#include <stdlib.h>

#include <Zend/zend_weakrefs.h>

typedef struct connection_member {
    zend_object *object;
    connection_group *group;
    struct connection_member *next, **before;
    struct connection_member *next_last;
    bool is_held;
    bool is_last; /* no object held it any more when it was let go */
} connection_member;

static struct {
    HashTable members;       /* by object */
    connection_member *last; /* those that are the last to be held */
    connection_group **by_descriptor;
    int descriptors; /* room for them */
} connection_groups;

/* ---- descriptors ---- */

connection_group *connection_group_of_descriptor(int fd)
{
    bool is_known = fd >= 0 && fd < connection_groups.descriptors;

    return is_known ? connection_groups.by_descriptor[fd] : NULL;
}

void connection_group_note_closed(int fd)
{
    connection_group *group = connection_group_of_descriptor(fd);

    if (group) {
        group->descriptor = -1;
        connection_groups.by_descriptor[fd] = NULL;
    }
}

static void make_room_for(int fd)
{
    const int room = fd < 64 ? 64 : fd * 2;
    connection_group **more;

    if (fd < connection_groups.descriptors) {
        return;
    }
    more = realloc(connection_groups.by_descriptor, (size_t)room * sizeof(*more));
    if (!more) {
        abort();
    }
    memset(more + connection_groups.descriptors, 0,
           (size_t)(room - connection_groups.descriptors) * sizeof(*more));
    connection_groups.by_descriptor = more;
    connection_groups.descriptors = room;
}

void connection_group_take_descriptor(connection_group *group, int fd)
{
    if (fd < 0 || group->descriptor == fd) {
        return;
    }
    make_room_for(fd);
    connection_group_note_closed(group->descriptor);
    connection_group_note_closed(fd);
    group->descriptor = fd;
    connection_groups.by_descriptor[fd] = group;
}

/* ---- objects ---- */

/* Its object is being destroyed. */
static void forget(zval *kept)
{
    connection_member *member = Z_PTR_P(kept);
    connection_group *group = member->group;

    *member->before = member->next;
    if (member->next) {
        member->next->before = member->before;
    }
    free(member);
    if (!group->members) {
        connection_group_note_closed(group->descriptor);
        free(group);
    }
}

void connection_group_watch(void)
{
    zend_hash_init(&connection_groups.members, 0, NULL, forget, 1);
}

static connection_member *find(const zend_object *object)
{
    if (!(OBJ_FLAGS(object) & IS_OBJ_WEAKLY_REFERENCED)) {
        return NULL;
    }
    return zend_hash_index_find_ptr(&connection_groups.members, zend_object_to_weakref_key(object));
}

connection_group *connection_group_of(const zend_object *object)
{
    const connection_member *member = find(object);

    return member ? member->group : NULL;
}

void connection_group_join(connection_group *group, zend_object *object)
{
    connection_member *member;

    if (find(object)) {
        return;
    }
    member = calloc(1, sizeof(*member));
    if (!member) {
        abort();
    }
    *member = (connection_member){.object = object, .group = group, .next = group->members};
    if (member->next) {
        member->next->before = &member->next;
    }
    member->before = &group->members;
    group->members = member;
    zend_weakrefs_hash_add_ptr(&connection_groups.members, object, member);
}

connection_group *connection_group_found(zend_object *object)
{
    connection_group *group = connection_group_of(object);

    if (!group) {
        group = calloc(1, sizeof(*group));
        if (!group) {
            abort();
        }
        group->descriptor = -1;
        connection_group_join(group, object);
    }
    return group;
}

void connection_group_hold(connection_group *group)
{
    for (connection_member *member = group->members; member; member = member->next) {
        /* One that is being destroyed waits by itself. */
        if (!member->is_held && !(OBJ_FLAGS(member->object) & IS_OBJ_FREE_CALLED)) {
            GC_ADDREF(member->object);
            member->is_held = true;
        }
    }
}

void connection_group_let_go(connection_group *group)
{
    for (connection_member *member = group->members; member; member = member->next) {
        if (!member->is_held || member->is_last) {
            continue;
        }
        if (GC_REFCOUNT(member->object) > 1) {
            member->is_held = false;
            OBJ_RELEASE(member->object);
        } else {
            member->is_last = true;
            member->next_last = connection_groups.last;
            connection_groups.last = member;
        }
    }
}

void connection_group_collect(void)
{
    connection_member **at = &connection_groups.last, *member;

    while ((member = *at)) {
        if (member->group->user) {
            at = &member->next_last;
            continue;
        }
        *at = member->next_last;
        member->is_held = member->is_last = false;
        /* Its destructor may let others run: they may come here, too. */
        OBJ_RELEASE(member->object);
        at = &connection_groups.last;
    }
}
