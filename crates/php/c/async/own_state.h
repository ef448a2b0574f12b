/* What PHP keeps once for a process and async mode keeps for each request. */
#ifndef TOKAMAK_OWN_STATE_H
#define TOKAMAK_OWN_STATE_H

#include "ground/state.h"

/* The state of one request while it does not run. request_state.own leads to it. */
typedef struct own_state own_state;

/* After module start-up, before any script is compiled: opcache's JIT remembers what it calls. */
void own_state_watch(void);
/* In the script, when its loop begins (false: there is no memory) and when it has ended. */
bool own_state_learn(void);
void own_state_forget(void);
own_state *own_state_make(void);
void own_state_free(own_state *state);
/* A request begins, in the state of the script; and it has ended. */
void own_state_begin(own_state *state);
/* False: a destructor has died of a fatal error. */
bool own_state_end(own_state *state);
/* It goes, or comes back. */
void own_state_leave(own_state *state);
void own_state_enter(own_state *state);

#endif
