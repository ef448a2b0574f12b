/* Objects of PHP that use one connection: a PDO and its statements, a mysqli and its results. */
#ifndef TOKAMAK_KIN_H
#define TOKAMAK_KIN_H

#include "state.h"

/* They live as long as one of their objects. */
typedef struct {
    struct kin_member *members;
    /* the request that waits inside of one of them, and the function it does it in; NULL: none */
    const request_state *user;
    const zend_function *function;
    int descriptor; /* the last one of theirs; -1: none */
} kin;

void kin_watch(void);
/* The group of an object; NULL: it has none. */
kin *kin_of(const zend_object *object);
/* The group of an object; a new one with it alone, if it has none. */
kin *kin_found(zend_object *object);
void kin_join(kin *all, zend_object *object);
/* The connection's descriptor, from now on until it is closed. */
void kin_take_descriptor(kin *all, int fd);
/* NULL: nobody's that is known. */
kin *kin_of_descriptor(int fd);
void kin_note_closed(int fd);
/* From here on none of them is destroyed, ... */
void kin_hold(kin *all);
/* ... and from here on again: those that nobody else holds by now, when kin_settle() comes to it.
 */
void kin_let_go(kin *all);
void kin_settle(void);

#endif
