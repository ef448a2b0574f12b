/* What memory cannot hold: descriptors, directory, umask, signals, timers. Sealed mode puts them back by hand, and classic
 * mode those that PHP itself does not put back.
 *
 * A change is noted where it is made (interpose.c), so that a request that changed nothing costs
 * nothing; in sealed mode one system call, closing all descriptors that it may have left. What cannot be put back is a
 * doubt, and ends the worker. In sealed mode the notes lie in kept memory; the values to return to were written there when
 * the image was taken.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attributes.h"
#include "image.h"
#include "parts.h"

enum { MOST_FILES = 64 }; /* open since the boot, whose positions are put back */

typedef struct {
    int fd;
    off_t at;
} position;

typedef struct {
    int is_watched;
    int first_fd; /* all descriptors below are the image's, all from here on a request's */
    int directory_changed, umask_changed, mask_changed, timer_changed;
    uint64_t signals_changed; /* one bit a signal */
    mode_t umask;
    char directory[PATH_MAX];
    struct sigaction signals[65];
    int file_count;
    position files[MOST_FILES];
    int has_children;
    time_t looked; /* at the attributes */
    attributes attributes;
} world;

/* Of a process that can be rolled back: kept memory. Part of the image, like every pointer here. */
static world *kept_world;

static const char *classic_doubt;

static int is_watching(void)
{
    return kept_world && kept_world->is_watched && !shim.is_copy;
}

void world_note_doubt(const char *what)
{
    if (shim.sealed) {
        image_note_doubt(what);
    } else if (!classic_doubt) {
        classic_doubt = what;
    }
}

const char *world_doubt(void)
{
    return shim.sealed ? image_doubt() : classic_doubt;
}

size_t world_size(void)
{
    return sizeof(world);
}

/* ---- descriptors ---- */

static unsigned char own[1024 / 8]; /* open before PHP was: the server's */

void world_each_descriptor(void (*visit)(int fd, void *), void *context)
{
    DIR *directory = opendir("/proc/self/fd");
    struct dirent *entry;
    int fds[1024], count = 0;

    if (!directory) {
        return;
    }
    while (count < 1024 && (entry = readdir(directory))) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && fd != dirfd(directory)) {
            fds[count++] = fd;
        }
    }
    closedir(directory);
    for (int i = 0; i < count; i++) {
        visit(fds[i], context);
    }
}

static void note_own(int fd, void *nothing)
{
    (void)nothing;
    if (fd < 1024) {
        own[fd / 8] |= (unsigned char)(1 << fd % 8);
    }
}

void world_note_own_descriptors(void)
{
    world_each_descriptor(note_own, NULL);
}

void world_describe_peer(int fd, char *text, size_t size)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
        struct sockaddr_storage room;
    } peer = {0};
    socklen_t len = sizeof(peer);
    char address[INET6_ADDRSTRLEN] = "";

    if (getpeername(fd, &peer.any, &len) != 0) {
        snprintf(text, size, "a socket without a peer");
    } else if (peer.any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &peer.v4.sin_addr, address, sizeof(address));
        snprintf(text, size, "a connection to %s:%d", address, ntohs(peer.v4.sin_port));
    } else if (peer.any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &peer.v6.sin6_addr, address, sizeof(address));
        snprintf(text, size, "a connection to [%s]:%d", address, ntohs(peer.v6.sin6_port));
    } else if (peer.any.sa_family == AF_UNIX && peer.local.sun_path[0]) {
        snprintf(text, size, "a connection to %.100s", peer.local.sun_path);
    } else {
        snprintf(text, size, "a connection");
    }
}

/* The peer knows nothing of roll-backs: two workers, or two requests, would talk in the middle of each other's sentences. The
 * descriptor's number stays taken, by a socket whose other end is closed: whoever still uses it gets an error, and not
 * another file that happens to get the number. */
static void close_socket(int fd, void *nothing)
{
    char peer[160], line[400];
    struct stat st;
    int pair[2], len;

    (void)nothing;
    if ((fd < 1024 && own[fd / 8] >> fd % 8 & 1) || fstat(fd, &st) != 0 || !S_ISSOCK(st.st_mode)) {
        return;
    }
    world_describe_peer(fd, peer, sizeof(peer));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        close(fd);
    } else {
        dup3(pair[0], fd, O_CLOEXEC);
        close(pair[0]);
        close(pair[1]);
    }
    len = snprintf(line, sizeof(line),
                   "%s (descriptor %d) was opened at boot; it is closed, because an image cannot hold a connection: open it "
                   "in the request",
                   peer, fd);
    rust_log(SHIM_WARN, line, (size_t)len);
}

void world_close_sockets(void)
{
    world_each_descriptor(close_socket, NULL);
}

static void find_highest(int fd, void *highest)
{
    if (fd > *(int *)highest) {
        *(int *)highest = fd;
    }
}

/* No hole below the highest descriptor: a request's own are then all above it, and closed by one call. */
static int fill_holes(void)
{
    int highest = -1, fd = open("/dev/null", O_RDWR | O_CLOEXEC), more;

    world_each_descriptor(find_highest, &highest);
    for (more = fd; more != -1 && more < highest; more = fcntl(fd, F_DUPFD_CLOEXEC, 0)) {
    }
    if (more > highest) {
        close(more);
    }
    return highest + 1;
}

static void close_if_above(int fd, void *first)
{
    if (fd >= *(int *)first) {
        syscall(SYS_close, fd);
    }
}

static void close_from(int first)
{
#ifndef SYS_close_range
#define SYS_close_range 436 /* Linux 5.9 */
#endif
    if (syscall(SYS_close_range, first, ~0u, 0) != 0) {
        world_each_descriptor(close_if_above, &first);
    }
}

void world_note_closed(int fd)
{
    if (is_watching() && fd >= 0 && fd < kept_world->first_fd) {
        image_note_doubt("a request closed a descriptor that was open at boot");
    }
}

/* ---- what is put back ---- */

void world_note_directory(void)
{
    if (is_watching()) {
        kept_world->directory_changed = 1;
    }
}

void world_note_signal(int number)
{
    if (is_watching() && number > 0 && number < 65) {
        kept_world->signals_changed |= 1ull << (number - 1);
    }
}

void world_note_mask(void)
{
    if (is_watching()) {
        kept_world->mask_changed = 1;
    }
}

void world_note_timer(void)
{
    if (is_watching()) {
        kept_world->timer_changed = 1;
    }
}

void world_note_umask(void)
{
    if (is_watching()) {
        kept_world->umask_changed = 1;
    }
}

/* ---- what cannot be put back ---- */

__attribute__((no_sanitize("address", "undefined"))) void world_note_irreversible(const char *what)
{
    if (is_watching()) {
        world_note_doubt(what);
    }
}

/* A thread that has ended leaves nothing; whether it has is looked at when the request ends. */
static int had_threads;

void world_note_thread(void)
{
    had_threads = 1;
}

void world_note_child(void)
{
    if (is_watching()) {
        kept_world->has_children = 1;
    }
}

/* The next visitor must not be able to wait for them. One that still runs lives on without this worker. */
static void bury_children(void)
{
    pid_t ended = 1;

    while (kept_world->has_children && ended > 0) {
        ended = waitpid(-1, NULL, WNOHANG);
    }
    if (kept_world->has_children && ended == 0) {
        world_note_doubt("a request left a process behind");
    }
}

void world_look_at_process(int closely)
{
    struct timespec now;
    const char *change;

    bury_children();
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (closely || kept_world->has_children || now.tv_sec != kept_world->looked) {
        kept_world->looked = now.tv_sec;
        kept_world->has_children = 0;
        change = attributes_compare(&kept_world->attributes);
        if (change) {
            world_note_doubt(change);
        }
    }
}

void world_look_for_threads(void)
{
    struct stat st;

    /* A directory's links: itself, its entry, and one for each directory in it. */
    if (had_threads && (stat("/proc/self/task", &st) != 0 || st.st_nlink != 3)) {
        world_note_doubt("a request left a thread behind");
    }
}

/* ---- learning and putting back ---- */

void world_learn(void *memory)
{
    world *w = memory;

    pthread_atfork(NULL, world_note_child, NULL);
    had_threads = 0;
    if (!getcwd(w->directory, sizeof(w->directory))) {
        w->directory[0] = 0;
    }
    w->umask = (mode_t)syscall(SYS_umask, 0);
    syscall(SYS_umask, w->umask);
    for (int n = 1; n < 65; n++) {
        sigaction(n, NULL, &w->signals[n]);
    }
    kept_world = w;
}

void world_watch(void)
{
    static world own;

    world_learn(&own);
    attributes_learn(&own.attributes);
    own.is_watched = 1;
}

/* Workers have the zygote's open files: one position for all of them. A file of the boot is opened again, each worker for
 * itself, at the position where the boot left it; the way back leads there too. */
static void own_file(position *file)
{
    int fd = file->fd;
    char path[40];
    int flags, again;
    off_t at;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    flags = fcntl(fd, F_GETFL);
    at = lseek(fd, 0, SEEK_CUR);
    again = flags == -1 || at == -1 ? -1 : open(path, (flags & ~(O_CREAT | O_EXCL | O_TRUNC)) | O_CLOEXEC);
    if (again == -1) {
        return;
    }
    if (again != fd) {
        dup3(again, fd, O_CLOEXEC);
        close(again);
    }
    file->at = lseek(fd, at, SEEK_SET);
}

void world_keep_position(int fd)
{
    struct stat st;

    if (kept_world->file_count < MOST_FILES && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        kept_world->files[kept_world->file_count++] = (position){fd, -1};
    }
}

int world_first_descriptor(void)
{
    return kept_world->first_fd;
}

typedef struct {
    int (*is_known)(int fd);
    int stranger;
} search;

static void look_at(int fd, void *context)
{
    search *s = context;
    struct stat st;

    if (fd < kept_world->first_fd || s->is_known(fd) || fstat(fd, &st) != 0 || S_ISCHR(st.st_mode)) {
        return;
    }
    if (S_ISREG(st.st_mode) && kept_world->file_count < MOST_FILES) {
        kept_world->files[kept_world->file_count++] = (position){fd, lseek(fd, 0, SEEK_CUR)};
    } else {
        s->stranger = fd;
    }
}

int world_strange_descriptor(int (*is_known)(int fd))
{
    search s = {is_known, -1};
    int files = kept_world->file_count;

    world_each_descriptor(look_at, &s);
    if (s.stranger != -1) {
        kept_world->file_count = files;
    }
    return s.stranger;
}

int world_keep_descriptors(int first)
{
    int before = kept_world->first_fd;

    kept_world->first_fd = first ? first : fill_holes();
    return before;
}

void world_begin(void)
{
    for (int i = 0; i < kept_world->file_count; i++) {
        own_file(&kept_world->files[i]);
    }
    kept_world->first_fd = fill_holes();
    attributes_learn(&kept_world->attributes);
    kept_world->is_watched = 1;
}

void world_put_back(void)
{
    world *w = kept_world;

    had_threads = 0; /* from here on they are not this request's */
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
}

void world_restore(int closely)
{
    world *w = kept_world;

    world_look_for_threads();
    world_look_at_process(closely);
    world_put_back();
    if (w->directory_changed) {
        if (w->directory[0] && syscall(SYS_chdir, w->directory) != 0) {
            image_note_doubt("the directory in which the application was booted is gone");
        }
        w->directory_changed = 0;
    }
    for (int i = 0; i < w->file_count; i++) {
        if (lseek(w->files[i].fd, w->files[i].at, SEEK_SET) != w->files[i].at) {
            image_note_doubt("a request closed a file that was open at boot");
        }
    }
    close_from(w->first_fd);
}
