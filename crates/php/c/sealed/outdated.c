/* Whether the image is still the application: the files of which it was made, and the code in
 * opcache's memory that it points to. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sealed/outdated.h"
#include "sealed/boot.h"
#include "state.h"
#include "worker.h"

typedef struct {
    char *path;
    struct timespec changed;
    off_t size;
    ino_t inode;
} known_file;

static known_file *files;
static size_t file_count;

static int looks_the_same(const known_file *file, const struct stat *st)
{
    return st->st_ino == file->inode && st->st_size == file->size &&
           st->st_mtim.tv_sec == file->changed.tv_sec &&
           st->st_mtim.tv_nsec == file->changed.tv_nsec;
}

static void learn(const zend_string *path, int is_missing_ok)
{
    struct stat st = {0};

    if (stat(ZSTR_VAL(path), &st) == 0 || is_missing_ok) {
        files[file_count++] =
            (known_file){strdup(ZSTR_VAL(path)), st.st_mtim, st.st_size, st.st_ino};
    }
}

void outdated_learn_files(void)
{
    HashTable *watched = boot_watched_files();
    zend_string *path;

    files = calloc(zend_hash_num_elements(&EG(included_files)) +
                       (watched ? zend_hash_num_elements(watched) : 0) + 1,
                   sizeof(*files));
    if (!files) {
        return;
    }
    if (watched) {
        ZEND_HASH_FOREACH_STR_KEY(watched, path) {
            learn(path, 1);
        } ZEND_HASH_FOREACH_END();
    }
    if (!zend_ini_long("opcache.validate_timestamps", sizeof("opcache.validate_timestamps") - 1,
                       0)) {
        return; /* files that are declared to stay as they are */
    }
    ZEND_HASH_FOREACH_STR_KEY(&EG(included_files), path) {
        if (path) {
            learn(path, 0);
        }
    } ZEND_HASH_FOREACH_END();
}

/* Rust asks, with frames of its own between the boot's zend_try and this one. */
static int cache_restarts(void)
{
    volatile int restarts = 0;

    zend_try {
        restarts = worker_cache_restarts();
    } zend_end_try();
    return restarts;
}

const char *shim_outdated(void)
{
    static char reason[PATH_MAX + 64];

    for (size_t i = 0; i < file_count; i++) {
        struct stat st;
        /* No file has the number 0: that is one which was not there. */
        if (stat(files[i].path, &st) != 0 ? files[i].inode != 0 : !looks_the_same(&files[i], &st)) {
            snprintf(reason, sizeof(reason), "%s has changed", files[i].path);
            return reason;
        }
    }
    return cache_restarts() ? "opcache was reset, or is full" : NULL;
}
