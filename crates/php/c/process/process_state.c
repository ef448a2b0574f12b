/* What memory cannot hold: directory, umask, signals, timers. Sealed mode puts them back by hand,
 * and classic mode those that PHP itself does not put back. Descriptors have a file of their own,
 * descriptors.c.
 *
 * A change is noted where it is made (interpose.c), so that a request that changed nothing costs
 * nothing. What cannot be put back is a taint, and ends the worker. In sealed mode the notes lie in
 * the persistent region; the values to return to were written there when the image was taken.
 */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "process/process_state.h"
#include "ground/state.h"
#include "ground/taint.h"
#include "image.h"
#include "process/attributes.h"
#include "process/signals.h"

typedef struct {
    int is_watched;
    int directory_changed, umask_changed, mask_changed, timer_changed, flags_changed;
    uint64_t signals_changed; /* one bit a signal */
    mode_t umask;
    char directory[PATH_MAX];
    struct sigaction signals[65];
    stack_t signal_stack;
    int timers;
    struct stat streams[STREAMS];
    int has_children, has_opened_proc;
    time_t looked; /* at the attributes */
    attributes attributes;
} process_state;

/* Of a process that can be rolled back: the persistent region. Part of the image, like every
 * pointer here. */
static process_state *kept_state;

int process_state_is_watching(void)
{
    return kept_state && kept_state->is_watched && !shim.is_copy;
}

size_t process_state_size(void)
{
    return sizeof(process_state);
}

/* The server's own, and a request's. How many: of each the kernel says its number first. */
static int timers(void)
{
    char text[4096];
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/timers", O_RDONLY | O_CLOEXEC);
    const long len = fd != -1 ? syscall(SYS_read, fd, text, sizeof(text)) : 0;
    int count = 0;

    for (long i = 0; i + 3 < len; i++) {
        count += memcmp(text + i, "ID: ", 4) == 0;
    }
    if (fd != -1) {
        syscall(SYS_close, fd);
    }
    return count;
}

/* ---- what is put back ---- */

void process_state_note_directory(void)
{
    if (process_state_is_watching()) {
        kept_state->directory_changed = 1;
    }
}

void process_state_note_signal(int number)
{
    if (process_state_is_watching() && number > 0 && number < 65) {
        kept_state->signals_changed |= 1ull << (number - 1);
    }
}

void process_state_note_mask(void)
{
    if (process_state_is_watching()) {
        kept_state->mask_changed = 1;
    }
}

void process_state_note_timer(void)
{
    if (process_state_is_watching()) {
        kept_state->timer_changed = 1;
    }
}

void process_state_note_umask(void)
{
    if (process_state_is_watching()) {
        kept_state->umask_changed = 1;
    }
}

void process_state_note_flags(void)
{
    if (process_state_is_watching()) {
        kept_state->flags_changed = 1;
    }
}

/* Not sanitized: the address sanitizer opens files before it has made its own memory. */
__attribute__((no_sanitize("address", "undefined"))) void
process_state_note_opened(const char *path, int flags)
{
    if ((flags & O_ACCMODE) != O_RDONLY && strncmp(path, "/proc/", 6) == 0 &&
        process_state_is_watching()) {
        kept_state->has_opened_proc = 1;
    }
}

/* ---- what cannot be put back ---- */

__attribute__((no_sanitize("address", "undefined"))) void
process_state_note_irreversible(const char *what)
{
    if (process_state_is_watching()) {
        taint_note(what);
    }
}

/* A thread that has ended leaves nothing; whether it has is looked at when the request ends. */
void process_state_note_thread(void)
{
    serving->changes.threads = 1;
}

void process_state_note_child(void)
{
    if (process_state_is_watching()) {
        kept_state->has_children = 1;
    }
}

/* The next visitor must not be able to wait for them. One that still runs lives on without this
 * worker. */
static void bury_children(void)
{
    pid_t ended = 1;

    while (kept_state->has_children && ended > 0) {
        ended = waitpid(-1, NULL, WNOHANG);
    }
    if (kept_state->has_children && ended == 0) {
        taint_note("a request left a process behind");
    }
}

/* What code in C has done by system calls of its own is in no note: all is put back. */
static void distrust_notes(void)
{
    kept_state->directory_changed = kept_state->umask_changed = kept_state->mask_changed = 1;
    kept_state->timer_changed = kept_state->flags_changed = 1;
    kept_state->signals_changed = UINT64_MAX;
}

static void look_at_what_no_note_says(void)
{
    sigset_t pending;
    struct stat now;

    distrust_notes();
    syscall(SYS_munlockall);
    sigaltstack(&kept_state->signal_stack, NULL);
    if (timers() != kept_state->timers) {
        taint_note("a request left a timer");
    }
    sigpending(&pending);
    if (!sigisemptyset(&pending)) {
        taint_note("a request left a signal");
    }
    for (int fd = 0; fd < STREAMS; fd++) {
        const struct stat *was = &kept_state->streams[fd];

        memset(&now, 0, sizeof(now));
        if (fstat(fd, &now) != 0 || now.st_dev != was->st_dev || now.st_ino != was->st_ino) {
            taint_note("a request changed standard input, output or error");
        }
    }
}

void process_state_look(int closely)
{
    struct timespec now;
    const char *change;

    if (closely) {
        look_at_what_no_note_says();
    }
    bury_children();
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (closely || kept_state->has_children || kept_state->has_opened_proc ||
        now.tv_sec != kept_state->looked) {
        kept_state->looked = now.tv_sec;
        kept_state->has_children = kept_state->has_opened_proc = 0;
        change = attributes_compare(&kept_state->attributes);
        if (change) {
            taint_note(change);
        }
    }
}

void process_state_look_for_threads(void)
{
    struct stat st;

    /* A directory's links: itself, its entry, and one for each directory in it. */
    if (serving->changes.threads && (stat("/proc/self/task", &st) != 0 || st.st_nlink != 3)) {
        taint_note("a request left a thread behind");
    }
}

/* ---- the zygote ----
 *
 * Workers have its limits, its priority, its processors. A program that a request has left running
 * may change them, and every later worker would be born with the change. */
static attributes of_zygote;

void shim_zygote_begins(void)
{
    attributes_learn(&of_zygote);
}

const char *shim_zygote_changed(void)
{
    return attributes_compare(&of_zygote);
}

/* ---- learning and putting back ---- */

void process_state_learn(void *memory)
{
    process_state *w = memory;

    pthread_atfork(NULL, process_state_note_child, NULL);
    serving->changes.threads = 0;
    if (!getcwd(w->directory, sizeof(w->directory))) {
        w->directory[0] = 0;
    }
    w->umask = (mode_t)syscall(SYS_umask, 0);
    syscall(SYS_umask, w->umask);
    for (int n = 1; n < 65; n++) {
        sigaction(n, NULL, &w->signals[n]);
    }
    sigaltstack(NULL, &w->signal_stack);
    kept_state = w;
}

/* Here and not with the image, since a worker may have other streams and timers than its boot. */
void process_state_begin(void)
{
    attributes_learn(&kept_state->attributes);
    kept_state->timers = timers();
    for (int fd = 0; fd < STREAMS; fd++) {
        fstat(fd, &kept_state->streams[fd]);
    }
    kept_state->is_watched = 1;
}

void process_state_watch(void)
{
    static process_state own;

    process_state_learn(&own);
    process_state_begin();
}

void process_state_put_back(void)
{
    process_state *w = kept_state;

    serving->changes.threads = 0; /* from here on they are not this request's */
    if (w->timer_changed) {
        struct itimerval none = {0};
        syscall(SYS_setitimer, ITIMER_REAL, &none, NULL);
        syscall(SYS_setitimer, ITIMER_VIRTUAL, &none, NULL);
        w->timer_changed = 0;
    }
    for (int n = 1; w->signals_changed && n < 65; n++) {
        if (w->signals_changed >> (n - 1) & 1) {
            sigaction(n, &w->signals[n], NULL);
        }
    }
    w->signals_changed = 0;
    if (w->mask_changed) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        w->mask_changed = 0;
    }
    if (w->umask_changed) {
        syscall(SYS_umask, w->umask);
        w->umask_changed = 0;
    }
    if (w->flags_changed) {
        attributes_put_back_streams(&w->attributes);
        w->flags_changed = 0;
    }
}

void process_state_restore(int closely)
{
    process_state *w = kept_state;

    process_state_look(closely);
    process_state_put_back();
    if (w->directory_changed) {
        if (w->directory[0] && syscall(SYS_chdir, w->directory) != 0) {
            image_note_taint("the directory in which the application was booted is gone");
        }
        w->directory_changed = 0;
    }
}
