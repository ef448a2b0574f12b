/* What a boot depends on: each file that it reads, finds missing, or has listed, as that was
 * when the boot first looked. */
#ifndef TOKAMAK_DEPENDENCIES_H
#define TOKAMAK_DEPENDENCIES_H

#include <glob.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#include "ground/state.h"

/* A state of a file. No file has the inode 0: then there is none. */
typedef struct {
    ino_t inode;
    mode_t mode;
    uid_t owner;
    gid_t group;
    off_t size;
    struct timespec modified, changed;
} file_mark;

/* Each says more than the one before. */
typedef enum {
    PRESENCE, /* that it is there, what it is, and whose */
    STATE,    /* its size or times */
    CONTENT,  /* what is in it, or in the directory */
    LINK,     /* where it leads: of the link itself, beside what it leads to */
} dependence;

typedef struct {
    file_mark mark;
    dependence kind;
    bool is_of_boot; /* not of a request to warm up with */
    bool is_named;   /* by the boot */
    bool is_own;     /* the boot itself has written it */
    bool is_output;  /* it has only written it, and not read it */
    bool is_directory;
} dependency;

/* The boot begins, or ends, in this thread. Its beginning is when the process began. */
void dependencies_note_start(void);
void dependencies_begin(void);
void dependencies_end(void);
/* Before this time nothing that the boot depends on may have changed. */
struct timespec dependencies_begun(void);
/* The boot names a file. */
void dependencies_add(const char *path);
/* By path, or NULL: nothing was noted. Says who was written by the boot itself as of now. */
HashTable *dependencies_noted(void);
void dependencies_forget(void);

file_mark dependencies_mark(const char *path, dependence kind);

/* For interpose.c: the results of these calls, which they hand through. */
int dependencies_opened(const char *path, int flags, int result);
int dependencies_looked(const char *path, const struct stat *found, int result);
int dependencies_looked_at_name(const char *path, const struct stat *found, int result);
int dependencies_sought(const char *path, int result);
ssize_t dependencies_followed(const char *path, ssize_t result);
void *dependencies_listed(const char *path, void *result);
int dependencies_glob(const char *pattern, int flags, int (*failed)(const char *, int),
                      glob_t *found);
/* Of PHP: its memory of the last file that it looked at hides calls of libc. */
void dependencies_queried(const zend_string *path, int what);
int dependencies_touched(const char *path, int result);
int dependencies_wrote_beside(const char *path, int result);

#endif
