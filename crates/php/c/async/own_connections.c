/* Persistent connections: PHP keeps them in one list, by what they were opened with, for the next
 * code that asks for the same (PDO::ATTR_PERSISTENT, pg_pconnect(), pfsockopen(), pconnect() of
 * phpredis, ...). Drivers expect that no other code uses what they find there. So of the requests
 * that are under way at once each has a list of its own, and so connections of its own, which the
 * next request in its place finds. There are as many as requests were ever under way at once. A
 * coroutine has a list of its own for the same reason.
 *
 * The script has a list, too: what it opened before its loop is in no request's.
 *
 * A coroutine's list is in place while the coroutine runs, and Fibers that it resumes: whose they
 * are does not matter, because who resumes a Fiber runs on when that is suspended. What is in place
 * is known here, and not by the part that a Fiber is of: the handler may resume a Fiber that a
 * coroutine has made.
 */
#include <stdlib.h>

#include "async/own_connections.h"
#include "ground/state.h"

struct own_connections {
    /* What is in place is elsewhere: for a request's own the script's is here then, and for a
     * coroutine's that of its request. */
    HashTable list;
    own_connections *next_of_all;
    own_connections *next; /* among the spare, or those left */
    const zend_fiber_context *left_in;
};

static own_connections *all;

/* Of coroutines that are over, and of requests of an earlier loop. Their connections are not
 * closed, because objects in static variables may use them. */
static own_connections *spare;

static own_connections *in_place; /* a coroutine's */

/* Of coroutines that have resumed a Fiber of another request, which has not come back yet. Hardly
 * any ever does: others leave by waiting, and know on their own stack what they have left. */
static own_connections *left;

own_connections *own_connections_make(void)
{
    own_connections *own = spare;

    if (own) {
        spare = own->next;
        return own;
    }
    own = malloc(sizeof(*own));
    if (own) {
        zend_hash_init(&own->list, 0, NULL, EG(persistent_list).pDestructor, 1);
        own->next_of_all = all;
        all = own;
    }
    return own;
}

void own_connections_free(own_connections *own)
{
    own->next = spare;
    spare = own;
}

void own_connections_exchange(own_connections *own)
{
    /* One empty list is as good as another. */
    if (zend_hash_num_elements(&own->list) > 0 ||
        zend_hash_num_elements(&EG(persistent_list)) > 0) {
        const HashTable list = own->list;

        own->list = EG(persistent_list);
        EG(persistent_list) = list;
    }
}

/* ---- of coroutines ---- */

void own_connections_enter(own_connections *own)
{
    if (own) {
        own_connections_exchange(own);
    }
    in_place = own;
}

own_connections *own_connections_leave(void)
{
    own_connections *own = in_place;

    if (own) {
        own_connections_exchange(own);
        in_place = NULL;
    }
    return own;
}

void own_connections_note_left(const zend_fiber_context *from)
{
    own_connections *own = own_connections_leave();

    if (own) {
        own->left_in = from;
        own->next = left;
        left = own;
    }
}

void own_connections_note_entered(const zend_fiber_context *to)
{
    for (own_connections **at = &left; *at; at = &(*at)->next) {
        if ((*at)->left_in == to) {
            own_connections *own = *at;

            *at = own->next;
            own_connections_enter(own);
            return;
        }
    }
}

/* ---- streams that are closed ---- */

static int forget(zval *entry, void *stream)
{
    zend_resource *resource = Z_RES_P(entry);

    if (resource->ptr != stream) {
        return ZEND_HASH_APPLY_KEEP;
    }
    resource->type = -1; /* the list frees the entry, and closes nothing */
    return ZEND_HASH_APPLY_REMOVE;
}

/* PHP looks for it in the list that is in place. It may have been opened in another one, and have
 * come here in a static variable, or from the handler to a coroutine. */
void own_connections_note_freed(const php_stream *stream, int options)
{
    if (stream->is_persistent && (options & PHP_STREAM_FREE_RELEASE_STREAM)) {
        for (own_connections *own = all; own; own = own->next_of_all) {
            zend_hash_apply_with_argument(&own->list, forget, (void *)stream);
        }
    }
}
