/* The session. */
#ifndef TOKAMAK_SESSION_H
#define TOKAMAK_SESSION_H

#include "ground/state.h"

/* What session.save_handler changes beside itself. */
typedef struct {
    const ps_module *mod, *default_mod;
} session_handler;

/* Between the two the setting may be anything, and the handler is afterwards what it was. In async
 * mode each request has its handler in its own memory, and the script's must not change when their
 * settings do. */
session_handler session_keep_handler(void);
void session_put_handler(session_handler kept);

/* session.auto_start: before the request's script. */
int session_starts_by_itself(void);
/* The save handler is code of the script. */
bool session_is_in_script(void);
/* In worker and sealed mode. */
void session_begin(void);
void session_end(void);
void session_learn(void);
/* Before the output of a request ends: its save handler lasts longer, as do objects of scripts. */
void session_destruct_handler(void);
void session_restore_handler(void);
void session_forget(void);

#endif
