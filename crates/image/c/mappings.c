/* What is mapped: watching it change, undoing the change.
 *
 * A request's mappings are seen because the program calls image_mmap() and its kin in place of
 * libc's. What libc maps by itself (a locale, a library that dlopen() brings) is not seen; check.c
 * finds it and takes it away.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mappings.h"
#include "region.h"
#include "pages.h"
#include "spare.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41 /* Linux 5.17 */
#endif

/* ---- watching ---- */

/* The persistent region is its parent's in a child that a request forked. Set back by no roll-back
 * but that of a worker. */
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
    return region && region->state == RUNNING && !is_child;
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
    for (size_t i = 0; i < region->range_count; i++) {
        if (overlaps(region->ranges[i].at, s)) {
            return 1;
        }
    }
    return 0;
}

static size_t bytes_in_image(span s)
{
    size_t bytes = 0;

    for (size_t i = 0; i < region->range_count; i++) {
        const span *r = &region->ranges[i].at;
        if (overlaps(*r, s)) {
            bytes += (r->to < s.to ? r->to : s.to) - (r->from > s.from ? r->from : s.from);
        }
    }
    return bytes;
}

int image_holds(const void *address)
{
    return region && region->state >= TAKEN && mappings_touch_image(span_of(address, 1));
}

static void note_mapping(new_mapping m)
{
    if (region->mapping_count == MOST_MAPPINGS) {
        image_note_taint("a request made too many memory mappings");
        return;
    }
    region->mappings[region->mapping_count++] = m;
}

static void forget_mapping(span s)
{
    for (size_t i = 0; i < region->mapping_count;) {
        new_mapping m = region->mappings[i], left = m, right = m;
        if (!overlaps(m.at, s)) {
            i++;
            continue;
        }
        region->mappings[i] = region->mappings[--region->mapping_count];
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

void image_watch_mappings(void (*notify)(const void *at, int is_new))
{
    watcher = notify;
}

/* All pages of a file at once, so that reading it causes no fault that the roll-back would have to
 * explain. */
static void *map_populated(void *address, size_t len, int protection, int flags, int fd,
                           off_t offset)
{
    long before = pages_faults();
    void *at =
        (void *)syscall(SYS_mmap, address, len, protection, flags | MAP_POPULATE, fd, offset);

    region->known_faults += pages_faults() - before;
    return at;
}

/* Nothing but the system call may run between the two looks: a page of the image, once counted as
 * known, would be missed. Reading is enough, as nothing waits for the first write to shared memory;
 * and the kernel brings the neighbours that exist, too. */
void image_populate_shared(const void *at, size_t len)
{
    long before;

    if (is_running()) {
        before = pages_faults();
        syscall(SYS_madvise, at, len, MADV_POPULATE_READ);
        region->known_faults += pages_faults() - before;
    }
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
    m.is_of_allocator = code >= region->reuse_code.from && code < region->reuse_code.to;
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
            image_note_taint("a request mapped something over memory of the image");
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
    for (size_t i = 0; i < region->mapping_count; i++) {
        const new_mapping *m = &region->mappings[i];
        if (m->at.from == s.from && m->at.to == s.to && spare_keep(m, 1)) {
            region->mappings[i] = region->mappings[--region->mapping_count];
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
        image_note_taint("a request unmapped memory across the border of the image");
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
            image_note_taint("a request changed the protection of memory of the image");
        }
        release_spares(span_of(address, len));
        for (size_t i = 0; i < region->mapping_count; i++) {
            if (overlaps(region->mappings[i].at, span_of(address, len))) {
                region->mappings[i].is_plain = 0;
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
    for (size_t i = 0; i < region->mapping_count; i++) {
        const new_mapping *m = &region->mappings[i];
        if (!spare_keep(m, 0)) {
            syscall(SYS_munmap, m->at.from, m->at.to - m->at.from);
        }
    }
    region->mapping_count = 0;
    spare_clear(has_faulted);
}

void mappings_adopt(void)
{
    spare_drop();
    region->mapping_count = 0;
}
