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
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "descriptors.h"
#include "image.h"
#include "process_state.h"
#include "state.h"
#include "syscall_cache.h"

#ifndef SYS_close_range
#define SYS_close_range 436 /* Linux 5.9 */
#endif

enum { SETTABLE = O_APPEND | O_ASYNC | O_DIRECT | O_NOATIME | O_NONBLOCK };

typedef enum {
    SHARED,   /* by all workers, and perhaps with others: flags alone are put back */
    REOPENED, /* a file or a directory: each worker has opened it for itself */
    COUNTER,  /* an eventfd: made anew for each request */
    REFUSED   /* its state can neither be read nor put back */
} descriptor_kind;

typedef struct {
    int fd;
    descriptor_kind kind;
    dev_t device;
    ino_t inode;
    int flags, closes_on_exec;
    off_t at;              /* of a file: where the boot left it; -1: it has no position */
    uint64_t count;        /* of a counter */
    struct f_owner_ex owner; /* who is told by a signal, and by which, that it can be read */
    int owner_signal;
    off_t held_at, held_len; /* the bytes on which the boot holds a shared lock; no length: none */
} descriptor;

/* Of the image. */
static descriptor *boot;
static size_t boot_count;
static char refusal[512];

typedef enum {
    POSIX_LOCKS = 1 << 0,
    OPEN_FILE_LOCKS = 1 << 1,
    FLOCKS = 1 << 2,
    FLAGS = 1 << 3,   /* owner, signal and lease too */
    COPIES = 1 << 4,  /* the same state may be changed through any number */
    FORKS = 1 << 5,   /* a child has the same open files, for as long as it lives */
    CLOSINGS = 1 << 6 /* libc may have closed one, and the number may be another file's */
} change;

/* Kept memory. */
typedef struct {
    int first_fd; /* all descriptors below are the image's, all from here on a request's */
    unsigned changes;
    int standard_flags[STDERR_FILENO + 1]; /* of the worker's: programs inherit them */
} descriptor_notes;

static descriptor_notes *notes;

static const char doubt_closed[] = "a request closed a descriptor that was open at boot";

size_t descriptors_size(void)
{
    return sizeof(descriptor_notes);
}

/* ---- all of them ---- */

void descriptors_visit(void (*visit)(int fd, void *), void *context)
{
    DIR *directory = opendir("/proc/self/fd");
    struct dirent *entry;
    size_t count = 0, room = 0;
    int *fds = NULL;

    if (!directory) {
        return;
    }
    while ((entry = readdir(directory))) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || fd == dirfd(directory)) {
            continue;
        }
        if (count == room) {
            room = room ? room * 2 : 256;
            fds = perealloc(fds, room * sizeof(*fds), 1);
        }
        fds[count++] = fd;
    }
    closedir(directory);
    for (size_t i = 0; i < count; i++) {
        visit(fds[i], context);
    }
    free(fds);
}

static unsigned char own[1024 / 8]; /* open before PHP was: the server's */

static void note_own(int fd, void *nothing)
{
    (void)nothing;
    if (fd >= 0 && fd < 1024) {
        own[fd / 8] |= (unsigned char)(1 << fd % 8);
    }
}

void descriptors_note_own(void)
{
    descriptors_visit(note_own, NULL);
}

void descriptors_add_own(int fd)
{
    note_own(fd, NULL);
}

static int is_own(int fd)
{
    return fd < 1024 && own[fd / 8] >> fd % 8 & 1;
}

/* php://stderr and the like. */
static int is_copy_of_own(int fd, const struct stat *st)
{
    enum { KCMP_FILE = 0 };
    pid_t self = getpid();
    struct stat other;

    for (int i = 0; i < 1024; i++) {
        /* Without an answer: two that share a log must not write from positions of their own. */
        if (is_own(i) && fstat(i, &other) == 0 && other.st_dev == st->st_dev &&
            other.st_ino == st->st_ino && syscall(SYS_kcmp, self, self, KCMP_FILE, fd, i) <= 0) {
            return 1;
        }
    }
    return 0;
}

/* ---- sockets of the boot ---- */

void descriptors_describe_peer(int fd, char *text, size_t size)
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

/* The peer knows nothing of roll-backs: two workers, or two requests, would talk in the middle of
 * each other's sentences. The number stays taken, by a socket whose other end is closed: code that
 * still uses it gets an error, and not another file that happens to get the number. */
static void close_socket(int fd, void *nothing)
{
    char peer[160], line[400];
    struct stat st;
    int pair[2], len;

    (void)nothing;
    if (is_own(fd) || fstat(fd, &st) != 0 || !S_ISSOCK(st.st_mode) || is_copy_of_own(fd, &st)) {
        return;
    }
    descriptors_describe_peer(fd, peer, sizeof(peer));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        close(fd);
    } else {
        dup3(pair[0], fd, O_CLOEXEC);
        close(pair[0]);
        close(pair[1]);
    }
    len = snprintf(line, sizeof(line),
                   "%s (descriptor %d) was opened at boot; it is closed, because an image cannot "
                   "hold a connection: open it in the request",
                   peer, fd);
    rust_log(SHIM_WARN, line, (size_t)len);
}

void descriptors_close_sockets(void)
{
    descriptors_visit(close_socket, NULL);
}

/* ---- learning ---- */

/* What the kernel says of a descriptor beside fstat(); the text is cut to `size`. */
static void read_details(int fd, char *text, size_t size)
{
    char path[40];
    int details;
    ssize_t got = -1;

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    details = open(path, O_RDONLY | O_CLOEXEC);
    if (details != -1) {
        got = read(details, text, size - 1);
        close(details);
    }
    text[got > 0 ? got : 0] = 0;
}

static void read_path(int fd, char *path, size_t size)
{
    char link[40];
    ssize_t len;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, path, size - 1);
    path[len > 0 ? len : 0] = 0;
}

static void look_for_path(int fd, void *context)
{
    const char **wanted = context;
    char path[PATH_MAX];

    read_path(fd, path, sizeof(path));
    if (*wanted && strcmp(path, *wanted) == 0) {
        *wanted = NULL;
    }
}

static int is_open(const char *path)
{
    descriptors_visit(look_for_path, &path);
    return !path;
}

/* SQLite in WAL mode holds two shared locks for as long as a database is open, so that no process
 * takes the log away; each process may have them. https://www.sqlite.org/walformat.html#locks; the
 * bytes are in SQLite's os.h and os_unix.c. */
static int is_of_idle_database(const char *path, long long from, long long to)
{
    enum { SHARED_FIRST = 0x40000000 + 2, SHARED_SIZE = 510, DEAD_MAN_SWITCH = 128 };
    char index[PATH_MAX + 8];
    size_t len = strlen(path);

    if (len > 4 && strcmp(path + len - 4, "-shm") == 0) {
        return from == DEAD_MAN_SWITCH && to == DEAD_MAN_SWITCH;
    }
    snprintf(index, sizeof(index), "%s-shm", path);
    return from == SHARED_FIRST && to == SHARED_FIRST + SHARED_SIZE - 1 && is_open(index);
}

/* Whether all locks of the boot can be had by each worker. */
static int learn_locks(descriptor *d, const char *path, const char *details)
{
    for (const char *line = strstr(details, "\nlock:"); line; line = strstr(line + 1, "\nlock:")) {
        char family[16] = "", sharing[16] = "";
        long long from, to;
        if (sscanf(line, "\nlock: %*d: %15s %*s %15s %*d %*s %lld %lld",
                   family, sharing, &from, &to) != 4 ||
            strcmp(family, "POSIX") != 0 || strcmp(sharing, "READ") != 0 || d->held_len ||
            !is_of_idle_database(path, from, to)) {
            return 0;
        }
        d->held_at = from;
        d->held_len = to - from + 1;
    }
    return 1;
}

static void refuse(int fd, const char *path, const char *why)
{
    static const struct {
        const char *path, *name;
    } names[] = {{"pipe:", "a pipe"},
                 {"anon_inode:[eventpoll]", "an epoll set"},
                 {"anon_inode:inotify", "an inotify instance"},
                 {"anon_inode:[timerfd]", "a timer"},
                 {"anon_inode:[signalfd]", "a descriptor for signals"}};
    const char *name = path;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        name = strncmp(path, names[i].path, strlen(names[i].path)) == 0 ? names[i].name : name;
    }
    if (!refusal[0]) {
        snprintf(refusal, sizeof(refusal), "%.300s (descriptor %d) %s", name, fd, why);
    }
}

/* Whether this process could open a file again. It does not try: the close would drop the locks. */
static int can_open_again(int fd, int flags)
{
    char path[40];
    int mode = flags & O_ACCMODE;
    int access = (mode != O_WRONLY ? R_OK : 0) | (mode != O_RDONLY ? W_OK : 0);

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return faccessat(AT_FDCWD, path, access, AT_EACCESS) == 0;
}

static void learn_counter(descriptor *d, const char *details)
{
    const char *count = strstr(details, "eventfd-count:");
    const char *mode = strstr(details, "eventfd-semaphore:");
    unsigned long long value = 0;

    if (count && sscanf(count, "eventfd-count: %llx", &value) == 1 && !(mode && atoi(mode + 18))) {
        d->kind = COUNTER;
        d->count = value;
    }
}

/* What is refused is noted in `refusal`, and learnt nevertheless. */
static descriptor_kind learn(int fd, const struct stat *st)
{
    descriptor d = {.fd = fd, .kind = SHARED, .device = st->st_dev, .inode = st->st_ino, .at = -1};
    char path[PATH_MAX], details[4096];

    d.flags = fcntl(fd, F_GETFL);
    d.closes_on_exec = fcntl(fd, F_GETFD);
    fcntl(fd, F_GETOWN_EX, &d.owner);
    d.owner_signal = fcntl(fd, F_GETSIG);
    if (!S_ISCHR(st->st_mode) && !S_ISSOCK(st->st_mode) && !syscall_cache_is_lock_file(fd) &&
        !is_copy_of_own(fd, st)) {
        read_path(fd, path, sizeof(path));
        read_details(fd, details, sizeof(details));
        d.kind = REFUSED;
        if (path[0] == '/' && !S_ISFIFO(st->st_mode)) {
            d.kind = REOPENED;
            d.at = lseek(fd, 0, SEEK_CUR);
            if (!can_open_again(fd, d.flags)) {
                refuse(fd, path, "is open and cannot be opened again by a worker; close it before "
                                 "the first request");
            } else if (!learn_locks(&d, path, details)) {
                refuse(fd, path, "is locked; release the lock, or end the transaction or query, "
                                 "before the first request");
            }
        } else if (strcmp(path, "anon_inode:[eventfd]") == 0) {
            learn_counter(&d, details);
        }
        if (d.kind == REFUSED) {
            refuse(fd, path, "is open, and what it holds cannot be put back; close it before the "
                             "first request");
        }
    }
    boot = perealloc(boot, (boot_count + 1) * sizeof(*boot), 1);
    boot[boot_count++] = d;
    return d.kind;
}

static void learn_of_boot(int fd, void *script)
{
    struct stat st, *of_script = script;

    /* The server's are its own business: a worker closes some, and may have other standard ones. */
    if (is_own(fd) || fstat(fd, &st) != 0) {
        return;
    }
    learn(fd, &st);
    /* The script itself is read to its end, and nobody reads on: its position costs nothing. */
    if (st.st_dev == of_script->st_dev && st.st_ino == of_script->st_ino) {
        boot[boot_count - 1].at = -1;
        of_script->st_ino = 0;
    }
}

void descriptors_learn(void *kept, const char *script)
{
    struct stat of_script = {0};

    notes = kept;
    if (script && stat(script, &of_script) != 0) {
        of_script.st_ino = 0;
    }
    descriptors_visit(learn_of_boot, &of_script);
}

const char *descriptors_refusal(void)
{
    return refusal[0] ? refusal : NULL;
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

void descriptors_begin(void)
{
    for (size_t i = 0; i < boot_count; i++) {
        if (boot[i].kind == REOPENED) {
            own_file(&boot[i]);
        } else if (boot[i].kind == COUNTER) {
            own_counter(&boot[i]);
        }
    }
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        notes->standard_flags[fd] = (int)syscall(SYS_fcntl, fd, F_GETFL);
    }
    notes->first_fd = fill_holes();
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
    if (learn(fd, &st) != REOPENED || refusal[0]) {
        s->stranger = fd;
    }
}

int descriptors_find_stranger(int (*is_known)(int fd))
{
    search s = {is_known, -1};
    size_t before = boot_count;

    descriptors_visit(look_at, &s);
    if (s.stranger != -1) {
        boot_count = before;
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
    if (is_of_boot(fd)) {
        image_note_doubt(doubt_closed);
    }
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

/* Not those that the boot held: without a moment in which somebody else could get them. */
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
        image_note_doubt("a file of the boot could not be opened again after a fork");
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

void descriptors_check(void)
{
    struct stat st;

    for (size_t i = 0; i < boot_count; i++) {
        const descriptor *d = &boot[i];
        /* A counter is another one in each request. */
        if (fstat(d->fd, &st) != 0 ||
            (d->kind != COUNTER && (st.st_dev != d->device || st.st_ino != d->inode))) {
            image_note_doubt(doubt_closed);
        }
    }
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
    if (notes->changes & CLOSINGS) {
        descriptors_check();
    }
    for (int fd = 0; notes->changes & (FLAGS | FORKS) && fd <= STDERR_FILENO; fd++) {
        put_back_modes(fd, notes->standard_flags[fd]);
    }
    for (size_t i = 0; i < boot_count; i++) {
        const descriptor *d = &boot[i];
        if (notes->changes) {
            put_back(d, notes->changes);
        }
        if ((d->at != -1 && lseek(d->fd, d->at, SEEK_SET) != d->at) ||
            (d->kind == COUNTER && own_counter(d) != 0)) {
            image_note_doubt(doubt_closed);
        }
    }
    notes->changes = 0;
    if (syscall(SYS_close_range, notes->first_fd, ~0u, 0) != 0) {
        descriptors_visit(close_if_above, &notes->first_fd);
    }
}
