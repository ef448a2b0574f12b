/* The time limit of a script. */
#ifndef TOKAMAK_TIME_LIMIT_H
#define TOKAMAK_TIME_LIMIT_H

#include <sys/time.h>

/* In place of libc's. */
int time_limit_setitimer(int which, const struct itimerval *wanted, struct itimerval *before);
/* Whether this process has a timer of its own for it: a worker has begun. */
int time_limit_is_kept(void);
/* What a fork brings along: the handler of the ticks. */
void time_limit_watch(void);
/* What it does not bring along: the timer. -1: there is none. */
int time_limit_begin(void);
/* That there is a timer, or none, in the process that goes on. */
void time_limit_note(int is_kept);

#endif
