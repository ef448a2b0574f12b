/* State of each request of async mode that the kernel and libc keep for the process. */
#ifndef TOKAMAK_OWN_PROCESS_H
#define TOKAMAK_OWN_PROCESS_H

#include "ground/compat.h"

/* What a request has changed, while it does not run. */
typedef struct {
    int directory; /* -1: the script's */
    int umask;     /* -1: the script's */
    char *locale;  /* NULL: the script's */
    zend_string *ctype;
    HashTable *environment; /* what it has put there; NULL: nothing */
} own_process;

/* In the script, when its loop begins. */
void own_process_learn(void);
/* A request goes, and the script's state is back; or it comes back. */
void own_process_leave(own_process *state);
void own_process_enter(own_process *state);

#endif
