/* What a boot depends on: each file that it reads, is told is missing, or has listed, as that was
 * when the boot first looked. */
#ifndef TOKAMAK_DEPENDENCIES_H
#define TOKAMAK_DEPENDENCIES_H

#include <glob.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#include "state.h"

/* A state of a file. No file has the inode 0: then there is none. */
typedef struct {
    ino_t inode;
    off_t size;
    struct timespec modified, changed;
} file_mark;

typedef enum {
    CONTENT,  /* what is in it, or in the directory */
    PRESENCE, /* that it is there */
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

file_mark dependencies_mark(const char *path);

/* For interpose.c: the results of these calls, which they hand through. */
int dependencies_opened(const char *path, int flags, int result);
int dependencies_looked(const char *path, const struct stat *found, int result);
int dependencies_missed(const char *path, int result);
int dependencies_sought(const char *path, int result);
void *dependencies_listed(const char *path, void *result);
int dependencies_glob(const char *pattern, int flags, int (*failed)(const char *, int),
                      glob_t *found);
int dependencies_touched(const char *path, int result);
int dependencies_wrote_beside(const char *path, int result);

#endif
