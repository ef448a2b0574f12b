/* What the kernel says in /proc of this process. */
#ifndef TOKAMAK_IMAGE_PROC_H
#define TOKAMAK_IMAGE_PROC_H

#include "region.h"

typedef struct {
    span at;
    int protection;
    int is_private, is_file, is_stack, is_fixed; /* fixed: the kernel's own, or wiped on fork */
    /* wiped on fork alone: a library sees by its zeros that it must seed itself anew */
    int is_mark_of_forks;
    uint64_t inode, offset;
} mapping;

/* Calls `each` for every mapping of this process until it returns non-zero. With `flags`, slower,
 * is_fixed covers memory that the kernel wipes by itself. -1: /proc could not be read. */
int proc_visit_mappings(int flags, int (*each)(const mapping *, void *), void *context);
/* -1: /proc could not be read. */
int proc_count_threads(void);

#endif
