/* Memory of the engine and of extensions that each request of async mode has of its own. */
#ifndef TOKAMAK_OWN_MEMORY_H
#define TOKAMAK_OWN_MEMORY_H

#include "ground/state.h"

typedef struct {
    void *at;
    size_t size;
    /* Of its values; NULL: the script's serve, and need no end. */
    void (*begin)(void *at, size_t size), (*end)(void *at, size_t size);
} own_row;

/* The values of one request while others, or the script, have theirs in place. */
typedef struct own_memory own_memory;

/* In the script, when its loop begins (false: there is no memory) and when it has ended. */
bool own_memory_learn(void);
void own_memory_forget(void);
/* NULL: there is no memory for it. */
own_memory *own_memory_make(void);
void own_memory_free(own_memory *own);
/* A request begins, in the state of the script; and it has ended. False: a destructor has died of a
 * fatal error. */
void own_memory_begin(void);
bool own_memory_end(void);
/* It goes, and the script's values are in place; or it comes back. */
void own_memory_leave(own_memory *own);
void own_memory_enter(const own_memory *own);

#endif
