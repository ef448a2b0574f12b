/* Handlers of signals, and the mask.
 *
 * Setting what is set already is left out. Every way to change a handler in this process leads
 * through signals_action() and signals_handle(), so the shadow is exact. A handler
 * that resets itself (SA_RESETHAND) is not remembered: the kernel changes it behind our back.
 */
#include <signal.h>
#include <string.h>

#include "process/signals.h"
#include "ground/libc.h"
#include "process/process_state.h"

static struct {
    int known;
    struct sigaction action;
} shadow[65];

static int is_same_action(const struct sigaction *a, const struct sigaction *b)
{
    return a->sa_sigaction == b->sa_sigaction && a->sa_flags == b->sa_flags &&
           memcmp(&a->sa_mask, &b->sa_mask, sizeof(a->sa_mask)) == 0;
}

int signals_action(int number, const struct sigaction *action, struct sigaction *before)
{
    int result;

    if (number > 0 && number < 65 && shadow[number].known &&
        (!action || is_same_action(action, &shadow[number].action))) {
        if (before) {
            *before = shadow[number].action;
        }
        return 0;
    }
    result = LIBC(sigaction)(number, action, before);
    if (action) {
        process_state_note_signal(number);
    }
    if (result == 0 && action && number > 0 && number < 65) {
        shadow[number].known = !(action->sa_flags & (int)SA_RESETHAND);
        shadow[number].action = *action;
    }
    return result;
}

sighandler_t signals_handle(int number, sighandler_t handler)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;

    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, number);
    return sigaction(number, &action, &before) == 0 ? before.sa_handler : SIG_ERR;
}

/* The mask of this thread as far as we have seen it being set: bit n - 1 is signal n. Inside a
 * signal handler the kernel blocks more; unblocking it there early is what gets lost, and nothing
 * relies on that. */
static _Thread_local uint64_t blocked;
static _Thread_local int blocked_known;

/* The part of a set that the kernel has; libc's type has room for more. */
static uint64_t signals_of(const sigset_t *set)
{
    uint64_t signals;

    memcpy(&signals, set, sizeof(signals));
    return signals;
}

int signals_change_mask(mask_changer real, int how, const sigset_t *set, sigset_t *before)
{
    const uint64_t wanted = set ? signals_of(set) : 0;
    sigset_t was;
    int result;

    if (how == SIG_UNBLOCK && set && !before && blocked_known && !(wanted & blocked)) {
        return 0;
    }
    result = real(how, set, &was);
    if (set) {
        process_state_note_mask();
    }
    if (result == 0) {
        if (before) {
            *before = was;
        }
        blocked_known = 1;
        blocked = signals_of(&was);
        if (set) {
            blocked = how == SIG_SETMASK ? wanted
                      : how == SIG_BLOCK ? blocked | wanted
                                         : blocked & ~wanted;
        }
    }
    return result;
}

static void on_nothing(int number)
{
    (void)number;
}

/* Signals that reach a whole process group (Ctrl-C, a closed terminal) are the supervisor's
 * business: the worker is asked to stop through the board. */
static const int not_ours[] = {SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM};

/* A child of a script has no supervisor. What the script has made of a signal stays. */
void signals_end_this(void)
{
    struct sigaction now;

    for (size_t i = 0; i < sizeof(not_ours) / sizeof(*not_ours); i++) {
        if (LIBC(sigaction)(not_ours[i], NULL, &now) == 0 && now.sa_handler == on_nothing) {
            LIBC(signal)(not_ours[i], SIG_DFL);
        }
    }
}

static sigset_t before_fork; /* what was blocked */

/* A signal may reach the child before it has made up its mind. */
void signals_hold(void)
{
    sigset_t held;

    sigemptyset(&held);
    for (size_t i = 0; i < sizeof(not_ours) / sizeof(*not_ours); i++) {
        sigaddset(&held, not_ours[i]);
    }
    LIBC(sigprocmask)(SIG_BLOCK, &held, &before_fork);
}

void signals_let_go(void)
{
    LIBC(sigprocmask)(SIG_SETMASK, &before_fork, NULL);
}

void signals_watch(void)
{
    /* A handler and not SIG_IGN, because programs that PHP starts inherit what is ignored. */
    struct sigaction action = {.sa_handler = on_nothing, .sa_flags = SA_RESTART};

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(not_ours) / sizeof(*not_ours); i++) {
        sigaction(not_ours[i], &action, NULL);
    }
}

void signals_begin(void)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

void signals_seal(void)
{
    blocked_known = 1;
    blocked = 0;
}
