/* Persistent connections: PHP keeps them in one list, by what they were opened with, for the next
 * code that asks for the same (PDO::ATTR_PERSISTENT, pg_pconnect(), pfsockopen(), pconnect() of
 * phpredis, ...). Drivers expect that nobody else uses what they find there. So of the requests
 * that are under way at once each has a list of its own, and so connections of its own, which the
 * next request in its place finds. There are as many as requests were ever under way at once. A
 * coroutine has a list of its own for the same reason.
 *
 * The script has a list, too: what it opened before its loop is in no request's.
 */
#include <stdlib.h>

#include "async/own_connections.h"
#include "state.h"

struct own_connections {
    HashTable list; /* the script's while the request runs */
    own_connections *next;
};

/* Of coroutines that are over, and of requests of an earlier loop. Their connections are not
 * closed, because objects in static variables may use them. */
static own_connections *spare;

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
