/* The look at what is open at boot: how it stands, what of it is the server's, and what cannot be
 * put back after a request. */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "process/descriptors_boot.h"
#include "process/opcache.h"

boot_descriptors descriptors_boot;
static char refusal[512];

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

/* A socket whose other end is closed, the same in the place of all; -1: there is none yet. */
static int hung_up = -1;

int descriptors_boot_hang_up(int fd)
{
    int pair[2];

    if (hung_up == -1 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0) {
        hung_up = pair[0];
        close(pair[1]);
    }
    return (int)syscall(SYS_dup3, hung_up, fd, O_CLOEXEC);
}

/* The peer knows nothing of roll-backs: two workers, or two requests, would talk in the middle of
 * each other's sentences. The number stays taken, by a socket whose other end is closed: code that
 * still uses it gets an error, and not another file that happens to get the number. */
static void close_socket(int fd, void *count)
{
    char peer[160], line[400];
    struct stat st;
    int len;

    if (is_own(fd) || fstat(fd, &st) != 0 || !S_ISSOCK(st.st_mode) || is_copy_of_own(fd, &st)) {
        return;
    }
    descriptors_describe_peer(fd, peer, sizeof(peer));
    ++*(int *)count;
    if (descriptors_boot_hang_up(fd) == -1) {
        close(fd);
    }
    len = snprintf(line, sizeof(line),
                   "%s (descriptor %d) was opened at boot; it is closed, because an image cannot "
                   "hold a connection: open it in the request",
                   peer, fd);
    rust_log(SHIM_WARN, line, (size_t)len);
}

int descriptors_close_sockets(void)
{
    int count = 0;

    descriptors_visit(close_socket, &count);
    return count;
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

static int is_hung_up(const struct stat *st)
{
    struct stat other;

    return hung_up != -1 && fstat(hung_up, &other) == 0 && other.st_dev == st->st_dev &&
           other.st_ino == st->st_ino;
}

descriptor_kind descriptors_boot_add(int fd, const struct stat *st)
{
    descriptor d = {.fd = fd, .kind = SHARED, .device = st->st_dev, .inode = st->st_ino, .at = -1};
    char path[PATH_MAX], details[4096];

    d.flags = fcntl(fd, F_GETFL);
    d.closes_on_exec = fcntl(fd, F_GETFD);
    fcntl(fd, F_GETOWN_EX, &d.owner);
    d.owner_signal = fcntl(fd, F_GETSIG);
    if (S_ISSOCK(st->st_mode) && fd != hung_up && is_hung_up(st)) {
        d.kind = HUNG_UP;
    }
    if (!S_ISCHR(st->st_mode) && !S_ISSOCK(st->st_mode) && !opcache_is_lock_file(fd) &&
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
    descriptors_boot.all = perealloc(descriptors_boot.all,
                                     (descriptors_boot.count + 1) * sizeof(d), 1);
    descriptors_boot.all[descriptors_boot.count++] = d;
    return d.kind;
}

static void learn_of_boot(int fd, void *script)
{
    struct stat st, *of_script = script;

    /* The server's are its own business: a worker closes some, and may have other standard ones. */
    if (is_own(fd) || fstat(fd, &st) != 0) {
        return;
    }
    descriptors_boot_add(fd, &st);
    /* The script itself is read to its end, and no further: its position costs nothing. */
    if (st.st_dev == of_script->st_dev && st.st_ino == of_script->st_ino) {
        descriptors_boot.all[descriptors_boot.count - 1].at = -1;
        of_script->st_ino = 0;
    }
}

void descriptors_boot_learn(const char *script)
{
    struct stat of_script = {0};

    if (script && stat(script, &of_script) != 0) {
        of_script.st_ino = 0;
    }
    descriptors_visit(learn_of_boot, &of_script);
}

const char *descriptors_refusal(void)
{
    return refusal[0] ? refusal : NULL;
}
