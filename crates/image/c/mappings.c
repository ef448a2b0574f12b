/* What is mapped: reading it from the kernel, watching it change, undoing the change.
 *
 * A request's mappings are seen because the program calls image_mmap() and its kin in place of
 * libc's. What libc maps by itself (a locale, a library that dlopen() brings) is not seen;
 * mappings_check() finds it and takes it away.
 */
#include <errno.h>
#include <pthread.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kept.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41 /* Linux 5.17 */
#endif

/* ---- reading ---- */

static int parse(char *line, mapping *m)
{
    char *at = line;

    memset(m, 0, sizeof(*m));
    m->at.from = strtoul(at, &at, 16);
    if (*at++ != '-') {
        return 0;
    }
    m->at.to = strtoul(at, &at, 16);
    if (*at++ != ' ' || m->at.to <= m->at.from || strlen(at) < 5) {
        return 0;
    }
    m->protection = (at[0] == 'r' ? PROT_READ : 0) | (at[1] == 'w' ? PROT_WRITE : 0) |
                    (at[2] == 'x' ? PROT_EXEC : 0);
    m->is_private = at[3] == 'p';
    at += 5;
    m->offset = strtoul(at, &at, 16);
    at += strspn(at, " ");
    at += strcspn(at, " "); /* device */
    m->inode = strtoul(at, &at, 10);
    at += strspn(at, " ");
    m->is_file = m->inode != 0;
    m->is_stack = strncmp(at, "[stack", 6) == 0;
    m->is_fixed = strncmp(at, "[v", 2) == 0; /* [vdso], [vvar], [vvar_vclock], [vsyscall] */
    return 1;
}

/* "VmFlags: rd wr mr … dp": wf, wiped in a fork's child; dp, dropped at the kernel's pleasure. */
static int is_wiped(const char *line)
{
    return strncmp(line, "VmFlags:", 8) == 0 && (strstr(line, " wf") || strstr(line, " dp"));
}

int mappings_visit(int flags, int (*each)(const mapping *, void *), void *context)
{
    char *text = kept->scratch, *line, *end;
    size_t held = 0;
    mapping one, next;
    int have = 0, stopped = 0, is_line_of_mapping;
    ssize_t got;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, flags ? "/proc/self/smaps" : "/proc/self/maps",
                          O_RDONLY | O_CLOEXEC);

    if (fd == -1) {
        return -1;
    }
    while (!stopped && (got = read(fd, text + held, SCRATCH - 1 - held)) > 0) {
        held += (size_t)got;
        for (line = text; !stopped && (end = memchr(line, '\n', held - (size_t)(line - text)));
             line = end + 1) {
            *end = 0;
            is_line_of_mapping = line[0] >= '0' && line[0] <= 'f' && parse(line, &next);
            if (is_line_of_mapping) {
                stopped = have && each(&one, context);
                one = next;
                have = 1;
            } else if (have && is_wiped(line)) {
                one.is_fixed = 1;
                one.is_mark_of_forks = !strstr(line, " dp");
            }
        }
        held -= (size_t)(line - text);
        memmove(text, line, held);
    }
    if (have && !stopped) {
        each(&one, context);
    }
    syscall(SYS_close, fd);
    return 0;
}

/* ---- watching ---- */

/* Kept memory is its parent's in a child that a request forked. Set back by no roll-back but that
 * of a worker. */
static int is_child;

static void note_child(void)
{
    is_child = 1;
}

int mappings_watch(void)
{
    return pthread_atfork(NULL, NULL, note_child);
}

static int is_running(void)
{
    return kept && kept->state == RUNNING && !is_child;
}

static int overlaps(span a, span b)
{
    return a.from < b.to && b.from < a.to;
}

static span span_of(const void *address, size_t len)
{
    span s = {(uintptr_t)address, (uintptr_t)address + ((len + PAGE - 1) & ~(size_t)(PAGE - 1))};
    return s;
}

int mappings_touch_image(span s)
{
    for (size_t i = 0; i < kept->range_count; i++) {
        if (overlaps(kept->ranges[i].at, s)) {
            return 1;
        }
    }
    return 0;
}

static size_t bytes_in_image(span s)
{
    size_t bytes = 0;

    for (size_t i = 0; i < kept->range_count; i++) {
        const span *r = &kept->ranges[i].at;
        if (overlaps(*r, s)) {
            bytes += (r->to < s.to ? r->to : s.to) - (r->from > s.from ? r->from : s.from);
        }
    }
    return bytes;
}

int image_holds(const void *address)
{
    return kept && kept->state >= TAKEN && mappings_touch_image(span_of(address, 1));
}

static void note_mapping(new_mapping m)
{
    if (kept->mapping_count == MOST_MAPPINGS) {
        image_note_doubt("a request made too many memory mappings");
        return;
    }
    kept->mappings[kept->mapping_count++] = m;
}

static void forget_mapping(span s)
{
    for (size_t i = 0; i < kept->mapping_count;) {
        new_mapping m = kept->mappings[i], left = m, right = m;
        if (!overlaps(m.at, s)) {
            i++;
            continue;
        }
        kept->mappings[i] = kept->mappings[--kept->mapping_count];
        left.at.to = s.from;
        right.at.from = s.to;
        if (left.at.from < left.at.to) {
            note_mapping(left);
        }
        if (right.at.from < right.at.to) {
            note_mapping(right);
        }
    }
}

/* Memory of earlier requests that this one treats otherwise than whole: mappings like any other
 * from here on. */
static void release_spares(span s)
{
    span released;

    while (spare_release(s, &released)) {
        note_mapping((new_mapping){.at = released});
    }
}

static void (*watcher)(const void *at, int is_new);

void image_watch_mappings(void (*told)(const void *at, int is_new))
{
    watcher = told;
}

/* All pages of a file at once, so that reading it causes no fault that the roll-back would have to
 * explain. */
static void *map_populated(void *address, size_t len, int protection, int flags, int fd,
                           off_t offset)
{
    long before = pages_faults();
    void *at =
        (void *)syscall(SYS_mmap, address, len, protection, flags | MAP_POPULATE, fd, offset);

    kept->known_faults += pages_faults() - before;
    return at;
}

/* Whether reading is all that can be done with it, and it is not so large that most of it might not
 * be read. */
static int is_for_reading(size_t len, int protection, int fd)
{
    return fd != -1 && len <= CHUNK && protection == PROT_READ;
}

void *image_mmap(void *address, size_t len, int protection, int flags, int fd, off_t offset,
                 const void *caller)
{
    uintptr_t code = (uintptr_t)caller;
    new_mapping m = {.protection = protection};
    void *at;

    if (!is_running()) {
        at = (void *)syscall(SYS_mmap, address, len, protection, flags, fd, offset);
        if (watcher && at != MAP_FAILED && (fd != -1 || flags & MAP_SHARED)) {
            watcher(at, 1);
        }
        return at;
    }
    m.is_plain = !address && fd == -1 && flags == (MAP_PRIVATE | MAP_ANONYMOUS);
    m.is_of_allocator = code >= kept->reuse_code.from && code < kept->reuse_code.to;
    if (m.is_plain) {
        at = spare_take(len, protection, m.is_of_allocator);
        if (at) {
            return at;
        }
    }
    if (is_for_reading(len, protection, fd)) {
        at = map_populated(address, len, protection, flags, fd, offset);
    } else {
        at = (void *)syscall(SYS_mmap, address, len, protection, flags, fd, offset);
    }
    if (at == MAP_FAILED) {
        return at;
    }
    if (flags & MAP_FIXED) {
        if (mappings_touch_image(span_of(at, len))) {
            image_note_doubt("a request mapped something over memory of the image");
        }
        release_spares(span_of(at, len));
        forget_mapping(span_of(at, len));
    }
    m.at = span_of(at, len);
    note_mapping(m);
    return at;
}

/* A whole mapping that its request gives back. */
static int keep_mapping(span s)
{
    for (size_t i = 0; i < kept->mapping_count; i++) {
        const new_mapping *m = &kept->mappings[i];
        if (m->at.from == s.from && m->at.to == s.to && spare_keep(m, 1)) {
            kept->mappings[i] = kept->mappings[--kept->mapping_count];
            return 1;
        }
    }
    return 0;
}

int image_munmap(void *address, size_t len)
{
    span s = span_of(address, len);

    if (!is_running()) {
        if (watcher) {
            watcher(address, 0);
        }
        return (int)syscall(SYS_munmap, address, len);
    }
    if (spare_give_back(s) || keep_mapping(s)) {
        return 0;
    }
    if (mappings_touch_image(s)) {
        if (bytes_in_image(s) == s.to - s.from) {
            return 0; /* it will be wanted again: the roll-back brings its contents back */
        }
        image_note_doubt("a request unmapped memory across the border of the image");
        return 0;
    }
    release_spares(s);
    if (syscall(SYS_munmap, address, len) != 0) {
        return -1;
    }
    forget_mapping(s);
    return 0;
}

void *image_mremap(void *address, size_t old_len, size_t len, int flags, void *wanted)
{
    span s = span_of(address, old_len);
    void *at;

    if (is_running() && mappings_touch_image(s)) {
        if (len <= old_len && !(flags & MREMAP_FIXED)) {
            return address;
        }
        errno = ENOMEM;
        return MAP_FAILED;
    }
    if (is_running()) {
        release_spares(s);
    }
    at = (void *)syscall(SYS_mremap, address, old_len, len, flags, wanted);
    if (is_running() && at != MAP_FAILED) {
        forget_mapping(s);
        note_mapping((new_mapping){.at = span_of(at, len)});
    }
    return at;
}

int image_mprotect(void *address, size_t len, int protection)
{
    if (is_running()) {
        if (mappings_touch_image(span_of(address, len))) {
            image_note_doubt("a request changed the protection of memory of the image");
        }
        release_spares(span_of(address, len));
        for (size_t i = 0; i < kept->mapping_count; i++) {
            if (overlaps(kept->mappings[i].at, span_of(address, len))) {
                kept->mappings[i].is_plain = 0;
            }
        }
    }
    return (int)syscall(SYS_mprotect, address, len, protection);
}

/* PHP names its chunks for /proc/self/maps, again each time it gets one: a system call for each
 * request that does not name anything new. */
int image_prctl(int option, const unsigned long words[4])
{
    if (option == PR_SET_VMA && is_running() && spare_begins_at(words[1])) {
        return 0;
    }
    return (int)syscall(SYS_prctl, option, words[0], words[1], words[2], words[3]);
}

/* ---- undoing ---- */

void mappings_undo(int has_faulted)
{
    for (size_t i = 0; i < kept->mapping_count; i++) {
        const new_mapping *m = &kept->mappings[i];
        if (!spare_keep(m, 0)) {
            syscall(SYS_munmap, m->at.from, m->at.to - m->at.from);
        }
    }
    kept->mapping_count = 0;
    spare_clear(has_faulted);
}

void mappings_adopt(void)
{
    spare_drop();
    kept->mapping_count = 0;
}

/* ---- checking ---- */

static int learn(const mapping *m, void *failed)
{
    if (kept->base_count == MOST_RANGES) {
        *(int *)failed = 1;
        return 1;
    }
    kept->base[kept->base_count++] = m->at;
    return 0;
}

int mappings_learn(void)
{
    int failed = 0;

    kept->base_count = 0;
    if (mappings_visit(0, learn, &failed) != 0) {
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

    for (size_t i = 0; i < kept->base_count; i++) {
        narrow(kept->base[i], at, &until, next);
    }
    for (size_t i = 0; i < kept->mapping_count; i++) {
        narrow(kept->mappings[i].at, at, &until, next);
    }
    for (size_t i = 0; i < kept->spare_count; i++) {
        narrow(kept->spares[i].at, at, &until, next);
    }
    return until;
}

enum { MOST_STRANGE = 512 }; /* found at one look */

typedef struct {
    int wrong;
    uint64_t inode;        /* of the image's file */
    uint64_t own_inode;    /* of the addition's */
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
    for (size_t i = 0; i < kept->range_count; i++) {
        const image_range *r = &kept->ranges[i];
        uintptr_t from = r->at.from > m->at.from ? r->at.from : m->at.from;
        uintptr_t to = r->at.to < m->at.to ? r->at.to : m->at.to;
        if (from < to) {
            int is_own = r->offset >= kept->file_bytes;
            int right = m->is_private && m->inode == (is_own ? f->own_inode : f->inode) &&
                        m->protection == r->protection &&
                        m->offset + (is_own ? kept->file_bytes : 0) + (from - m->at.from) ==
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
    uintptr_t view = (uintptr_t)kept->view, own = view + kept->file_bytes;

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
    kept->strays += f->strange_count;
}

int mappings_check(void)
{
    findings files = {0}, f = {0};
    int failed = mappings_visit(0, find_inodes, &files) != 0;

    do {
        f = (findings){.inode = files.inode, .own_inode = files.own_inode};
        failed = failed || mappings_visit(0, examine, &f) != 0;
        take_away(&f);
    } while (!failed && f.strange_count == MOST_STRANGE);
    if (failed) {
        image_note_doubt("/proc/self/maps cannot be read");
        return 1;
    }
    if (f.wrong || f.seen != kept->bytes) {
        image_note_doubt("memory of the image is mapped otherwise than it was");
    }
    return f.wrong + (f.seen != kept->bytes);
}
