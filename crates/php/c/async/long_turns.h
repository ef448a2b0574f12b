/* Requests of async mode that compute for long, while others wait for their turn. */
#ifndef TOKAMAK_LONG_TURNS_H
#define TOKAMAK_LONG_TURNS_H

/* After module start-up. */
void long_turns_watch(void);
/* The process has used one more second of processor time. In a signal handler. */
void long_turns_note_second(void);

#endif
