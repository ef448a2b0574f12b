/* The session. */
#ifndef TOKAMAK_SESSION_H
#define TOKAMAK_SESSION_H

/* session.auto_start: before the request's script. */
int session_starts_by_itself(void);
/* In worker and sealed mode. */
void session_begin(void);
void session_end(void);
void session_learn(void);
void session_restore_handler(void);
void session_forget(void);

#endif
