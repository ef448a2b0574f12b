/* A process becomes a worker: timers, signals and locks that a fork brings along, and does not. */
#include <pthread.h>

#include "process/worker_process.h"
#include "ground/state.h"
#include "process/directory.h"
#include "process/opcache.h"
#include "process/signals.h"
#include "process/time_limit.h"

/* A script forked (pcntl_fork). Timers stay with the parent, and so does everything in shared
 * memory. */
static void on_fork_in_child(void)
{
    time_limit_note(0);
    opcache_forget_locks();
    shim.is_copy = 1;
    if (serving->stage == STAGE_REQUEST || serving->stage == STAGE_LATE) {
        signals_end_this();
    }
    signals_let_go();
}

/* What a fork brings along: handlers. */
static void install_handlers(void)
{
    signals_watch();
    time_limit_watch();
    pthread_atfork(signals_hold, signals_let_go, on_fork_in_child);
}

int worker_process_begin_copy(void)
{
    signals_begin();
    return time_limit_begin();
}

void worker_process_begin(void)
{
    install_handlers();
    directory_note_start();
    opcache_forget_locks();
    worker_process_begin_copy();
}

void worker_process_seal(void)
{
    install_handlers();
    opcache_seal();
    time_limit_note(1);
    signals_seal();
}
