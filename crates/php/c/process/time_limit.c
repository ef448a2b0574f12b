/* The time limit of a script.
 *
 * PHP arms ITIMER_PROF (CPU time) at each request, twice. We keep one timer that ticks once for
 * each second of CPU time and count. So a limit of N seconds strikes after N to N+1 seconds of CPU
 * time. A process that waits does not tick at all.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "process/time_limit.h"
#include "ground/critical_section.h"
#include "ground/state.h"
#include "image.h"
#include "process/process_state.h"

static int has_ticks; /* the timer exists in this process */

static void on_tick(int number)
{
    int kept = errno;
    (void)number;
    if (image_is_rolling_back()) {
        return; /* nothing runs that could take too long */
    }
    if (critical_section_is_on()) {
        return; /* PHP's handler would jump, now or later; a tick more or less is nothing */
    }
    shim.mode->tick();
    if (serving->seconds_left > 0 && --serving->seconds_left == 0) {
        raise(SIGPROF); /* PHP's own handler does the rest */
    }
    errno = kept;
}

int time_limit_setitimer(int which, const struct itimerval *wanted, struct itimerval *before)
{
    if (which != ITIMER_PROF || !has_ticks || !wanted) {
        process_state_note_timer();
        return (int)syscall(SYS_setitimer, which, wanted, before);
    }
    if (before) {
        memset(before, 0, sizeof(*before));
        before->it_value.tv_sec = serving->seconds_left;
    }
    serving->seconds_left = wanted->it_value.tv_sec <= 0        ? 0
                            : wanted->it_value.tv_sec < INT_MAX ? (int)wanted->it_value.tv_sec + 1
                                                                : INT_MAX;
    return 0;
}

int time_limit_is_kept(void)
{
    return has_ticks;
}

void time_limit_watch(void)
{
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};

    sigemptyset(&action.sa_mask);
    sigaction(SIGRTMIN + 6, &action, NULL);
}

int time_limit_begin(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 6};
    struct itimerspec each = {{1, 0}, {1, 0}};
    timer_t timer;

    /* Without a timer of our own PHP keeps its. */
    has_ticks = timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer) == 0 &&
                timer_settime(timer, 0, &each, NULL) == 0;
    return has_ticks ? 0 : -1;
}

void time_limit_note(int is_kept)
{
    has_ticks = is_kept;
}
