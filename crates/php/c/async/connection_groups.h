/* Objects of PHP that use one connection: a PDO and its statements, a mysqli and its results. */
#ifndef TOKAMAK_KIN_H
#define TOKAMAK_KIN_H

#include "ground/state.h"

/* They live as long as one of their objects. */
typedef struct {
    struct connection_member *members;
    /* the request that waits inside of one of them, and the function it does it in; NULL: none */
    const request_state *user;
    const zend_function *function;
    int descriptor; /* the last one of theirs; -1: none */
} connection_group;

void connection_group_watch(void);
/* The group of an object; NULL: it has none. */
connection_group *connection_group_of(const zend_object *object);
/* The group of an object; a new one with it alone, if it has none. */
connection_group *connection_group_found(zend_object *object);
void connection_group_join(connection_group *group, zend_object *object);
/* The connection's descriptor, from now on until it is closed. */
void connection_group_take_descriptor(connection_group *group, int fd);
/* NULL: of no known connection. */
connection_group *connection_group_of_descriptor(int fd);
void connection_group_note_closed(int fd);
/* From here on none of them is destroyed, ... */
void connection_group_hold(connection_group *group);
/* ... and from here on again: those that no object holds by now, when connection_group_collect()
 * comes to it. */
void connection_group_let_go(connection_group *group);
void connection_group_collect(void);

#endif
