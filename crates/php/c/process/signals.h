/* Handlers of signals, and the mask. */
#ifndef TOKAMAK_SIGNALS_H
#define TOKAMAK_SIGNALS_H

#include <signal.h>

/* In place of libc's; the last one takes the function of libc that was called. */
typedef int (*mask_changer)(int how, const sigset_t *set, sigset_t *before);
int signals_action(int number, const struct sigaction *action, struct sigaction *before);
sighandler_t signals_handle(int number, sighandler_t handler);
int signals_change_mask(mask_changer real, int how, const sigset_t *set, sigset_t *before);
/* What a fork brings along: handlers for what is the supervisor's business. */
void signals_watch(void);
/* What it does not bring along: a mask without the zygote's blocked signals. */
void signals_begin(void);
/* In an image: as if signals_begin() had run. */
void signals_seal(void);
/* Around a fork of a script, and in its child: that has no supervisor. */
void signals_hold(void);
void signals_let_go(void);
void signals_end_this(void);

#endif
