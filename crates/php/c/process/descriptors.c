/* What the kernel holds behind the descriptors of the boot, and the way back for it.
 *
 *   zygote:   learn what is open, and how it stands ──► refuse what cannot be put back
 *   worker:   files of its own ──► [ request: changes are noted ──► put back, close the rest ]
 *
 * Memory goes back by itself; positions, locks and flags do not. What each descriptor was is in the
 * image. The kernel is asked only about what a request may have changed: calls are noted by
 * interpose.c. Positions are the exception, because libc moves them unseen (readdir), and so does a
 * child: they are set after each request, by one system call for each file.
 */
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "process/descriptors.h"
#include "ground/libc.h"
#include "ground/state.h"
#include "image.h"
#include "process/descriptors_boot.h"
#include "process/process_state.h"

#ifndef SYS_close_range
#define SYS_close_range 436 /* Linux 5.9 */
#endif

enum { SETTABLE = O_APPEND | O_ASYNC | O_DIRECT | O_NOATIME | O_NONBLOCK };

typedef enum {
    POSIX_LOCKS = 1 << 0,
    OPEN_FILE_LOCKS = 1 << 1,
    FLOCKS = 1 << 2,
    FLAGS = 1 << 3,   /* owner, signal and lease too */
    COPIES = 1 << 4,  /* the same state may be changed through any number */
    FORKS = 1 << 5,   /* a child has the same open files, for as long as it lives */
    CLOSINGS = 1 << 6, /* libc may have closed one, and the number may be another file's */
    HANG_UPS = 1 << 7 /* what stands for a socket of the boot was closed */
} change;

/* In the persistent region. */
typedef struct {
    int first_fd; /* all descriptors below are the image's, all from here on a request's */
    long places;  /* of the process's table of descriptors */
    unsigned changes;
    int standard_flags[STDERR_FILENO + 1]; /* of the worker's: programs inherit them */
} descriptor_notes;

static descriptor_notes *notes;

static const char taint_closed[] = "a request closed a descriptor that was open at boot";

size_t descriptors_size(void)
{
    return sizeof(descriptor_notes);
}

void descriptors_learn(void *kept)
{
    pthread_atfork(NULL, descriptors_note_fork, NULL);
    notes = kept;
}

/* ---- of a worker's own ---- */

static struct flock held_by_boot(const descriptor *d)
{
    return (struct flock){
        .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = d->held_at, .l_len = d->held_len};
}

/* Workers have the zygote's open files: one position and one set of locks for all of them, and for
 * a child that a request has forked. So a worker opens them again, each for itself, at the place
 * where the boot left them. */
static int own_file(const descriptor *d)
{
    struct flock held = held_by_boot(d);
    char path[40];
    long again;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", d->fd);
    again = syscall(SYS_openat, AT_FDCWD, path,
                    (d->flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_NOFOLLOW)) | O_CLOEXEC);
    if (again == -1) {
        return -1;
    }
    syscall(SYS_dup3, again, d->fd, O_CLOEXEC);
    syscall(SYS_close, again);
    if (d->at != -1) {
        lseek(d->fd, d->at, SEEK_SET);
    }
    return d->held_len ? (int)syscall(SYS_fcntl, d->fd, F_SETLK, &held) : 0;
}

static int own_counter(const descriptor *d)
{
    long again = syscall(SYS_eventfd2, 0, (d->flags & O_NONBLOCK ? EFD_NONBLOCK : 0) | EFD_CLOEXEC);

    if (again == -1) {
        return -1;
    }
    if (d->count) {
        syscall(SYS_write, again, &d->count, sizeof(d->count));
    }
    syscall(SYS_dup3, again, d->fd, O_CLOEXEC);
    syscall(SYS_close, again);
    return 0;
}

static void find_highest(int fd, void *highest)
{
    if (fd > *(int *)highest) {
        *(int *)highest = fd;
    }
}

/* No hole below the highest descriptor: a request's own are then all above it, and one call closes
 * them. */
static int fill_holes(void)
{
    int highest = -1, fd = open("/dev/null", O_RDWR | O_CLOEXEC), more;

    descriptors_visit(find_highest, &highest);
    for (more = fd; more != -1 && more < highest; more = fcntl(fd, F_DUPFD_CLOEXEC, 0)) {
    }
    if (more > highest) {
        close(more);
    }
    return highest + 1;
}

/* How many places the kernel's table of descriptors has. -1: it does not say. */
static long count_places(void)
{
    char text[4096], *at = NULL;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd == -1 ? -1 : read(fd, text, sizeof(text) - 1);

    syscall(SYS_close, fd);
    if (got > 0) {
        text[got] = 0;
        at = strstr(text, "\nFDSize:");
    }
    return at ? atol(at + 8) : -1;
}

void descriptors_begin(void)
{
    for (size_t i = 0; i < descriptors_boot.count; i++) {
        if (descriptors_boot.all[i].kind == REOPENED) {
            own_file(&descriptors_boot.all[i]);
        } else if (descriptors_boot.all[i].kind == COUNTER) {
            own_counter(&descriptors_boot.all[i]);
        }
    }
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        notes->standard_flags[fd] = (int)syscall(SYS_fcntl, fd, F_GETFL);
    }
    notes->first_fd = fill_holes();
    notes->places = count_places();
}

int descriptors_first(void)
{
    return notes->first_fd;
}

typedef struct {
    int (*is_known)(int fd);
    int stranger;
} search;

static void look_at(int fd, void *context)
{
    search *s = context;
    struct stat st;

    if (fd < notes->first_fd || s->is_known(fd) || fstat(fd, &st) != 0 || S_ISCHR(st.st_mode)) {
        return;
    }
    if (descriptors_boot_add(fd, &st) != REOPENED || descriptors_refusal()) {
        s->stranger = fd;
    }
}

int descriptors_find_stranger(int (*is_known)(int fd))
{
    search s = {is_known, -1};
    size_t before = descriptors_boot.count;

    descriptors_visit(look_at, &s);
    if (s.stranger != -1) {
        descriptors_boot.count = before;
    }
    return s.stranger;
}

int descriptors_keep(int first)
{
    int before = notes->first_fd;

    notes->first_fd = first ? first : fill_holes();
    return before;
}

/* ---- what a request does ---- */

static int is_of_boot(int fd)
{
    return fd >= 0 && notes && fd < notes->first_fd && process_state_is_watching();
}

static void note_change(int fd, change what)
{
    if (is_of_boot(fd) || (notes && notes->changes & COPIES && process_state_is_watching())) {
        notes->changes |= what;
    }
}

void descriptors_note_closed(int fd)
{
    if (!is_of_boot(fd)) {
        return;
    }
    for (size_t i = 0; i < descriptors_boot.count; i++) {
        if (descriptors_boot.all[i].fd == fd && descriptors_boot.all[i].kind == HUNG_UP) {
            /* A library that notices the end of its connection, and makes another one. */
            notes->changes |= HANG_UPS;
            return;
        }
    }
    image_note_taint(taint_closed);
}

void descriptors_note_unseen_closing(void)
{
    note_change(0, CLOSINGS);
}

void descriptors_note_copied(int fd)
{
    note_change(fd, COPIES);
}

void descriptors_note_fork(void)
{
    note_change(0, FORKS);
}

void descriptors_note_flock(int fd)
{
    note_change(fd, FLOCKS);
}

void descriptors_note_posix_lock(int fd)
{
    note_change(fd, POSIX_LOCKS);
}

void descriptors_note_ioctl(int fd, unsigned long request)
{
    if (request == FIONBIO || request == FIOASYNC || request == FIOCLEX || request == FIONCLEX ||
        request == FIOSETOWN) {
        process_state_note_flags();
        note_change(fd, FLAGS);
    }
}

void descriptors_note_fcntl(int fd, int command)
{
    switch (command) {
    case F_DUPFD:
    case F_DUPFD_CLOEXEC:
        note_change(fd, COPIES);
        break;
    case F_SETFL:
        process_state_note_flags();
        note_change(fd, FLAGS);
        break;
    case F_SETFD:
    case F_SETOWN:
    case F_SETOWN_EX:
    case F_SETSIG:
    case F_SETLEASE:
    case F_NOTIFY:
        note_change(fd, FLAGS);
        break;
    case F_SETLK:
    case F_SETLKW:
        note_change(fd, POSIX_LOCKS);
        break;
    case F_OFD_SETLK:
    case F_OFD_SETLKW:
        note_change(fd, OPEN_FILE_LOCKS);
        break;
    }
}

int descriptors_were_locked(void)
{
    return notes && notes->changes & POSIX_LOCKS;
}

/* ---- putting back ---- */

/* Not those that the boot held: so that no open() gets their
 * numbers meanwhile. */
static void unlock(const descriptor *d)
{
    struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    struct flock held = held_by_boot(d);

    if (!d->held_len) {
        syscall(SYS_fcntl, d->fd, F_SETLK, &all);
        return;
    }
    syscall(SYS_fcntl, d->fd, F_SETLK, &held);
    all.l_len = d->held_at;
    if (all.l_len) {
        syscall(SYS_fcntl, d->fd, F_SETLK, &all);
    }
    all.l_start = d->held_at + d->held_len;
    all.l_len = 0;
    syscall(SYS_fcntl, d->fd, F_SETLK, &all);
}

static void put_back_modes(int fd, int flags)
{
    if (flags != -1 && (syscall(SYS_fcntl, fd, F_GETFL) ^ flags) & SETTABLE) {
        syscall(SYS_fcntl, fd, F_SETFL, flags);
    }
}

/* Who hears of it: signals would reach a process that has nothing to do with it any more. */
static void put_back_owner(const descriptor *d)
{
    struct f_owner_ex now = {0};
    long lease = syscall(SYS_fcntl, d->fd, F_GETLEASE);

    if (syscall(SYS_fcntl, d->fd, F_GETOWN_EX, &now) == 0 &&
        (now.type != d->owner.type || now.pid != d->owner.pid)) {
        syscall(SYS_fcntl, d->fd, F_SETOWN_EX, &d->owner);
    }
    if (syscall(SYS_fcntl, d->fd, F_GETSIG) != d->owner_signal) {
        syscall(SYS_fcntl, d->fd, F_SETSIG, d->owner_signal);
    }
    if (lease == F_RDLCK || lease == F_WRLCK) {
        syscall(SYS_fcntl, d->fd, F_SETLEASE, F_UNLCK);
    }
    syscall(SYS_fcntl, d->fd, F_NOTIFY, 0);
}

static void put_back_flags(const descriptor *d)
{
    int closes = d->kind == REOPENED || d->kind == COUNTER ? FD_CLOEXEC : d->closes_on_exec;

    put_back_modes(d->fd, d->flags);
    put_back_owner(d);
    if (syscall(SYS_fcntl, d->fd, F_GETFD) != closes) {
        syscall(SYS_fcntl, d->fd, F_SETFD, closes);
    }
}

static void put_back(const descriptor *d, unsigned changes)
{
    struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};

    /* Not one with shared locks: closing it would give them up for a moment. */
    if (changes & FORKS && d->kind == REOPENED && !d->held_len && own_file(d) != 0) {
        image_note_taint("a file of the boot could not be opened again after a fork");
    }
    if (changes & FLOCKS) {
        syscall(SYS_flock, d->fd, LOCK_UN);
    }
    if (changes & OPEN_FILE_LOCKS) {
        syscall(SYS_fcntl, d->fd, F_OFD_SETLK, &all);
    }
    if (changes & POSIX_LOCKS && d->kind == REOPENED) {
        unlock(d);
    }
    if (changes & (FLAGS | FORKS)) {
        put_back_flags(d);
    }
}

/* Whether a counter may stand elsewhere than at the boot. One that stands at 0 could be read
 * otherwise; of others the kernel tells so only in /proc. Who has a copy may count later. */
static int may_have_counted(const descriptor *d)
{
    struct pollfd now = {.fd = d->fd, .events = POLLIN};

    return notes->changes & (FORKS | COPIES) || d->count || kernel_poll(&now, 1, 0) != 0;
}

void descriptors_check(void)
{
    struct stat st;

    for (size_t i = 0; i < descriptors_boot.count; i++) {
        const descriptor *d = &descriptors_boot.all[i];
        if (d->kind == HUNG_UP && descriptors_boot_hang_up(d->fd) == -1) {
            image_note_taint(taint_closed);
        }
        /* A counter may be another one than that of the boot. */
        if (fstat(d->fd, &st) != 0 ||
            (d->kind != COUNTER && (st.st_dev != d->device || st.st_ino != d->inode))) {
            image_note_taint(taint_closed);
        }
    }
}

/* At 8 ns for each, 16 us of each later request: ten times more would be felt, and a tenth is so
 * little that a new worker costs more. */
enum { MANY_PLACES = 2000 };

int descriptors_table_has_grown(void)
{
    return count_places() > notes->places + MANY_PLACES;
}

static void close_if_above(int fd, void *first)
{
    if (fd >= *(int *)first) {
        syscall(SYS_close, fd);
    }
}

void descriptors_restore(int closely)
{
    if (closely) {
        notes->changes = ~0u; /* code in C may have made its system calls by itself */
    }
    if (notes->changes & (CLOSINGS | HANG_UPS)) {
        descriptors_check();
    }
    for (int fd = 0; notes->changes & (FLAGS | FORKS) && fd <= STDERR_FILENO; fd++) {
        put_back_modes(fd, notes->standard_flags[fd]);
    }
    for (size_t i = 0; i < descriptors_boot.count; i++) {
        const descriptor *d = &descriptors_boot.all[i];
        if (notes->changes) {
            put_back(d, notes->changes);
        }
        if ((d->at != -1 && lseek(d->fd, d->at, SEEK_SET) != d->at) ||
            (d->kind == COUNTER && may_have_counted(d) && own_counter(d) != 0)) {
            image_note_taint(taint_closed);
        }
    }
    notes->changes = 0;
    if (image_taint()) {
        return; /* the process ends; a thread that is left behind may abort when one is closed */
    }
    if (syscall(SYS_close_range, notes->first_fd, ~0u, 0) != 0) {
        descriptors_visit(close_if_above, &notes->first_fd);
    }
}
