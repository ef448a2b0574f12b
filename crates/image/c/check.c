/* Compares a running process with the invariants of image.h. */
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "region.h"
#include "pages.h"
#include "proc.h"

/* ---- what is mapped: invariants 2 and 4 ---- */

static int learn(const mapping *m, void *failed)
{
    if (region->base_count == MOST_RANGES) {
        *(int *)failed = 1;
        return 1;
    }
    region->base[region->base_count++] = m->at;
    return 0;
}

int check_learn(void)
{
    int failed = 0;

    region->base_count = 0;
    if (proc_visit_mappings(0, learn, &failed) != 0) {
        return -1;
    }
    if (failed) {
        errno = E2BIG;
        return -1;
    }
    return 0;
}

static void narrow(span known, uintptr_t at, uintptr_t *until, uintptr_t *next)
{
    if (at >= known.from && at < known.to && known.to > *until) {
        *until = known.to;
    } else if (known.from > at && known.from < *next) {
        *next = known.from;
    }
}

/* The end of what is known from `at` on; `at` itself when that is not known, and then where the
 * next known begins. */
static uintptr_t known_until(uintptr_t at, uintptr_t *next)
{
    uintptr_t until = at;

    for (size_t i = 0; i < region->base_count; i++) {
        narrow(region->base[i], at, &until, next);
    }
    for (size_t i = 0; i < region->mapping_count; i++) {
        narrow(region->mappings[i].at, at, &until, next);
    }
    for (size_t i = 0; i < region->spare_count; i++) {
        narrow(region->spares[i].at, at, &until, next);
    }
    return until;
}

enum { MOST_STRANGE = 512 }; /* found at one look */

typedef struct {
    int wrong;
    uint64_t inode;        /* of the image's file */
    uint64_t own_inode;    /* of the private delta's */
    uint64_t seen;         /* bytes of the image that are mapped as they should be */
    size_t strange_count;
    span strange[MOST_STRANGE];
} findings;

static int examine(const mapping *m, void *context)
{
    findings *f = context;
    uintptr_t at = m->at.from;

    if (m->is_fixed || m->is_stack) {
        return 0;
    }
    for (size_t i = 0; i < region->range_count; i++) {
        const image_range *r = &region->ranges[i];
        uintptr_t from = r->at.from > m->at.from ? r->at.from : m->at.from;
        uintptr_t to = r->at.to < m->at.to ? r->at.to : m->at.to;
        if (from < to) {
            int is_own = r->offset >= region->file_bytes;
            int right = m->is_private && m->inode == (is_own ? f->own_inode : f->inode) &&
                        m->protection == r->protection &&
                        m->offset + (is_own ? region->file_bytes : 0) + (from - m->at.from) ==
                            r->offset + (from - r->at.from);
            f->wrong += !right;
            f->seen += right ? to - from : 0;
        }
    }
    while (at < m->at.to) {
        uintptr_t next = m->at.to, until = known_until(at, &next);
        if (until > at) {
            at = until;
            continue;
        }
        if (f->strange_count < MOST_STRANGE) {
            f->strange[f->strange_count++] = (span){at, next};
        }
        at = next;
    }
    return 0;
}

static int find_inodes(const mapping *m, void *context)
{
    findings *f = context;
    uintptr_t view = (uintptr_t)region->view, own = view + region->file_bytes;

    if (view >= m->at.from && view < m->at.to) {
        f->inode = m->inode;
    }
    if (own >= m->at.from && own < m->at.to) {
        f->own_inode = m->inode;
    }
    return 0;
}

/* Libc's own mappings: it has forgotten them with the roll-back. */
static void take_away(const findings *f)
{
    for (size_t i = 0; i < f->strange_count; i++) {
        syscall(SYS_munmap, f->strange[i].from, f->strange[i].to - f->strange[i].from);
    }
    region->strays += f->strange_count;
}

/* Returns how many mappings are wrong. */
static int check_mappings(void)
{
    findings files = {0}, f = {0};
    int failed = proc_visit_mappings(0, find_inodes, &files) != 0;

    do {
        f = (findings){.inode = files.inode, .own_inode = files.own_inode};
        failed = failed || proc_visit_mappings(0, examine, &f) != 0;
        take_away(&f);
    } while (!failed && f.strange_count == MOST_STRANGE);
    if (failed) {
        image_note_taint("/proc/self/maps cannot be read");
        return 1;
    }
    if (f.wrong || f.seen != region->bytes) {
        image_note_taint("memory of the image is mapped otherwise than it was");
    }
    return f.wrong + (f.seen != region->bytes);
}

/* ---- all together ---- */

int image_check(int bytes)
{
    int wrong, seals;

    /* First, because a thread that has not begun yet crashes when its stack is taken away. */
    if (proc_count_threads() != 1) {
        image_note_taint("a thread was left behind");
        return 1;
    }
    wrong = check_mappings();
    seals = (int)syscall(SYS_fcntl, region->file, F_GET_SEALS);
    if (!(seals & F_SEAL_WRITE)) {
        image_note_taint("the image is not sealed");
        wrong++;
    }
    if (bytes && !wrong) {
        int pages = pages_compare();
        if (pages) {
            image_note_taint("memory differs from the image after a roll-back");
        }
        wrong += pages;
    }
    return wrong;
}
