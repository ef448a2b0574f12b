/* The session, in worker and sealed mode. */
#ifndef TOKAMAK_SESSION_H
#define TOKAMAK_SESSION_H

void session_begin(void);
void session_end(void);
void session_learn(void);
void session_restore_handler(void);
void session_forget(void);

#endif
