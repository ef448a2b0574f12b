/* Connections and streams that a request of async mode waits in, and others must not use. */
#ifndef TOKAMAK_IN_USE_H
#define TOKAMAK_IN_USE_H

#include "async/connection_groups.h"
#include "async/reactor.h"

enum { IN_USE_AT_ONCE = 4 };

/* What one wait is in. In memory of who waits. */
typedef struct {
    connection_group *group; /* NULL: no object */
    const zend_execute_data *opens;
    size_t count;
    zend_ulong resources[IN_USE_AT_ONCE]; /* their handles */
} in_use_mark;

/* The class Tokamak\ConnectionInUse, which exists in all modes. */
void in_use_declare(void);
/* In async mode, when PHP has started. */
void in_use_watch(void);
/* A connection is about to be opened, or closed, on whatever thread. */
void in_use_note_connect(int fd);
void in_use_note_closed(int fd);
/* Around a wait in the function that runs now. */
void in_use_begin(in_use_mark *mark, const reactor_wait *wait);
void in_use_end(const in_use_mark *mark);

#endif
