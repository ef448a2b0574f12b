/* What a boot depends on, noted as it looks: what it opens to read, what it finds missing,
 * which directories it lists. Noted at the first look and not when the image is taken: a file that
 * changes in between is not what the image was made of.
 *
 * What the boot itself writes (a cache that it fills, and loads) counts as it is when the boot is
 * over. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sealed/dependencies.h"
#include "ground/libc.h"
#include "ground/state.h"
#include "ext/standard/php_filestat.h"

/* A framework's boot looks at some thousands of paths, and each is looked at once a second, in a
 * microsecond. A tenth would leave out files of large applications; ten times more would be a tenth
 * of a processor. */
enum { MOST_PATHS = 16384, MOST_OWN = 1024 };

/* The address sanitizer makes folders and opens files before it has made its own memory. */
#define UNSANITIZED __attribute__((no_sanitize("address", "undefined")))

static __thread bool is_noting;
static struct timespec begun;
static HashTable *noted;

/* Inodes that the boot has written to; of a directory: in which it has made or removed names. */
static struct {
    dev_t device;
    file_mark mark;  /* as the boot left it, if it was touched and not written to */
    bool is_touched;
} own[MOST_OWN];
static size_t own_count;

void dependencies_note_start(void)
{
    clock_gettime(CLOCK_REALTIME_COARSE, &begun); /* the clock of files */
}

struct timespec dependencies_begun(void)
{
    return begun;
}

void dependencies_begin(void)
{
    is_noting = true;
}

void dependencies_end(void)
{
    is_noting = false;
}

static file_mark mark_of(const struct stat *st)
{
    return (file_mark){st->st_ino, st->st_mode, st->st_uid,  st->st_gid,
                       st->st_size, st->st_mtim, st->st_ctim};
}

static int look(const char *path, dependence kind, struct stat *found)
{
    return kind == LINK ? LIBC(lstat)(path, found) : LIBC(stat)(path, found);
}

file_mark dependencies_mark(const char *path, dependence kind)
{
    struct stat st;

    return look(path, kind, &st) == 0 ? mark_of(&st) : (file_mark){0};
}

/* ---- what the boot writes ---- */

/* Its number among those; -1: it is not. */
static ssize_t find_own(dev_t device, ino_t inode)
{
    for (size_t i = 0; i < own_count; i++) {
        if (own[i].device == device && own[i].mark.inode == inode) {
            return (ssize_t)i;
        }
    }
    return -1;
}

static void note_own(const struct stat *st, bool is_touched)
{
    ssize_t found = find_own(st->st_dev, st->st_ino);
    size_t at = found >= 0 ? (size_t)found : own_count;

    if (at < MOST_OWN) {
        own[at].is_touched = is_touched && (found < 0 || own[at].is_touched);
        own[at].device = st->st_dev;
        own[at].mark = mark_of(st);
        own_count += found < 0;
    }
}

static void note_own_directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char directory[PATH_MAX];
    struct stat st;
    size_t len = slash ? (size_t)(slash - path) : 0;

    if (len >= sizeof(directory)) {
        return;
    }
    memcpy(directory, slash ? path : ".", slash ? len : 1);
    directory[slash ? len : 1] = 0;
    if (LIBC(stat)(slash && len == 0 ? "/" : directory, &st) == 0) {
        note_own(&st, false);
    }
}

UNSANITIZED int dependencies_touched(const char *path, int result)
{
    const int number = errno;
    struct stat st;

    if (is_noting && result == 0 && LIBC(stat)(path, &st) == 0) {
        note_own(&st, true);
    }
    errno = number;
    return result;
}

UNSANITIZED int dependencies_wrote_beside(const char *path, int result)
{
    const int number = errno;
    struct stat st;

    if (is_noting && result == 0) {
        note_own_directory_of(path);
        if (LIBC(lstat)(path, &st) == 0) {
            note_own(&st, false);
        }
        errno = number;
    }
    return result;
}

/* ---- what it looks at ---- */

static bool is_of_the_system(const char *path)
{
    return strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/sys/", 5) == 0 ||
           strncmp(path, "/dev/", 5) == 0;
}

static void free_entry(zval *entry)
{
    free(Z_PTR_P(entry));
}

/* What a path leads to and the path as a link are two entries: the key of a link has its zero. */
static size_t key_len(const char *path, dependence kind)
{
    return strlen(path) + (kind == LINK);
}

/* The first look at what is in a file counts; a look that asks for less, until then. PHP answers
 * such a look with what it remembers of the one before. */
static void note(const char *path, dependence kind, file_mark mark, bool is_directory)
{
    char whole[PATH_MAX];
    dependency *entry;
    size_t len = strlen(path);

    if (*path != '/') {
        if (len + 2 > sizeof(whole) || !getcwd(whole, sizeof(whole) - len - 2)) {
            return;
        }
        strcat(whole, "/");
        strcat(whole, path);
        path = whole;
        len = strlen(whole);
    }
    if (len == 0 || len >= PATH_MAX || is_of_the_system(path)) {
        return;
    }
    if (!noted) {
        noted = malloc(sizeof(*noted));
        if (!noted) {
            return;
        }
        zend_hash_init(noted, 256, NULL, free_entry, 1);
    }
    entry = zend_hash_str_find_ptr(noted, path, key_len(path, kind));
    if (entry && entry->mark.inode != 0 && kind <= entry->kind) {
        return;
    }
    if (!entry) {
        if (zend_hash_num_elements(noted) >= MOST_PATHS || !(entry = calloc(1, sizeof(*entry)))) {
            return;
        }
        zend_hash_str_add_new_ptr(noted, path, key_len(path, kind), entry);
    }
    if (kind == CONTENT || entry->mark.inode == 0) {
        entry->mark = mark;
    }
    entry->kind = kind;
    entry->is_directory = is_directory;
    entry->is_of_boot |= serving->stage == STAGE_BOOT && !shim.script.loops;
}

static bool is_missing(int number)
{
    return number == ENOENT || number == ENOTDIR;
}

UNSANITIZED int dependencies_opened(const char *path, int flags, int result)
{
    const int number = errno;
    struct stat st;

    if (!is_noting) {
        return result;
    }
    if (result < 0) {
        if (is_missing(number)) {
            note(path, CONTENT, (file_mark){0}, false);
        }
    } else if (fstat(result, &st) == 0 && S_ISREG(st.st_mode)) {
        if ((flags & O_ACCMODE) != O_RDONLY) {
            note_own(&st, false);
        } else if (!(flags & O_PATH)) {
            note(path, CONTENT, mark_of(&st), false);
        }
        if (flags & O_CREAT) {
            note_own_directory_of(path);
        }
    }
    errno = number;
    return result;
}

UNSANITIZED int dependencies_looked(const char *path, const struct stat *found, int result)
{
    const int number = errno;

    if (is_noting && result == 0) {
        note(path, PRESENCE, mark_of(found), S_ISDIR(found->st_mode));
    } else if (is_noting && is_missing(number)) {
        note(path, CONTENT, (file_mark){0}, false);
    }
    errno = number;
    return result;
}

UNSANITIZED int dependencies_looked_at_name(const char *path, const struct stat *found, int result)
{
    const int number = errno;

    if (is_noting && result == 0 && S_ISLNK(found->st_mode)) {
        note(path, LINK, mark_of(found), false);
    } else if (is_noting && result != 0 && is_missing(number)) {
        note(path, CONTENT, (file_mark){0}, false);
    }
    errno = number;
    return result;
}

UNSANITIZED ssize_t dependencies_followed(const char *path, ssize_t result)
{
    const int number = errno;

    if (is_noting && (result >= 0 || is_missing(number))) {
        note(path, LINK, dependencies_mark(path, LINK), false);
    }
    errno = number;
    return result;
}

UNSANITIZED int dependencies_sought(const char *path, int result)
{
    const int number = errno;

    if (is_noting && (result == 0 || is_missing(number))) {
        const file_mark mark =
            result == 0 ? dependencies_mark(path, PRESENCE) : (file_mark){0};
        note(path, result == 0 ? PRESENCE : CONTENT, mark, false);
    }
    errno = number;
    return result;
}

UNSANITIZED void *dependencies_listed(const char *path, void *result)
{
    const int number = errno;

    if (is_noting && (result || is_missing(number))) {
        note(path, CONTENT, result ? dependencies_mark(path, CONTENT) : (file_mark){0}, true);
    }
    errno = number;
    return result;
}

UNSANITIZED void dependencies_queried(const zend_string *name, int what)
{
    const char *path = ZSTR_VAL(name);
    const int number = errno;
    struct stat st;

    if (!is_noting || (what >= FS_TYPE && what <= FS_EXISTS)) {
        return;
    }
    if (strncasecmp(path, "file://", 7) == 0) {
        path += 7;
    }
    if (!strstr(path, "://") && LIBC(stat)(path, &st) == 0) {
        note(path, STATE, mark_of(&st), S_ISDIR(st.st_mode));
    }
    errno = number;
}

static void close_listed(void *directory)
{
    closedir(directory);
}

/* libc's glob() opens directories by itself, unless it is given functions. */
UNSANITIZED int dependencies_glob(const char *pattern, int flags,
                                  int (*failed)(const char *, int), glob_t *found)
{
    if (is_noting && !(flags & GLOB_ALTDIRFUNC)) {
        found->gl_opendir = (void *(*)(const char *))opendir;
        found->gl_readdir = (struct dirent * (*)(void *)) readdir;
        found->gl_closedir = close_listed;
        found->gl_lstat = lstat;
        found->gl_stat = stat;
        flags |= GLOB_ALTDIRFUNC;
    }
    return LIBC(glob)(pattern, flags, failed, found);
}

void dependencies_add(const char *path)
{
    dependency *entry;

    if (is_noting) {
        note(path, CONTENT, dependencies_mark(path, CONTENT), false);
        entry = noted ? zend_hash_str_find_ptr(noted, path, strlen(path)) : NULL;
        if (entry) {
            entry->is_named = true;
        }
    }
}

static void look_up_own(const char *path, dependency *entry)
{
    struct stat st;
    ssize_t found =
        look(path, entry->kind, &st) == 0 ? find_own(st.st_dev, st.st_ino) : -1;

    entry->is_own = found >= 0;
    entry->is_output = entry->is_own && !own[found].is_touched && !entry->is_directory &&
                       (entry->kind < CONTENT || entry->mark.inode == 0);
    if (entry->is_own) {
        entry->mark = own[found].is_touched ? own[found].mark : mark_of(&st);
    }
}

HashTable *dependencies_noted(void)
{
    zend_string *path;
    dependency *entry;

    if (noted) {
        ZEND_HASH_FOREACH_STR_KEY_PTR(noted, path, entry) {
            look_up_own(ZSTR_VAL(path), entry);
        } ZEND_HASH_FOREACH_END();
    }
    return noted;
}

void dependencies_forget(void)
{
    if (noted) {
        zend_hash_destroy(noted);
        free(noted);
        noted = NULL;
    }
}
