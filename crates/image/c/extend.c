/* The private delta to the image: what one process has made of its memory since it began to run.
 * Each time it is extended, a new file takes the place of the one before. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture.h"
#include "check.h"
#include "region.h"
#include "mappings.h"
#include "pages.h"
#include "proc.h"
#include "prepare.h"

static int too_many_ranges;

static image_range *add_range(image_range r)
{
    if (region->range_count == MOST_RANGES) {
        too_many_ranges = 1;
        return NULL;
    }
    region->ranges[region->range_count] = r;
    return &region->ranges[region->range_count++];
}

static int is_own(const image_range *r)
{
    return r->offset >= region->file_bytes;
}

/* Of a page that the image has as well: its range is cut, and what is between the parts is a range
 * of the private delta. A page of the delta is in its new file anyway. */
static void take_page(uintptr_t at)
{
    image_range *last = &region->ranges[region->range_count - 1], *r = region->ranges;

    while (at < r->at.from || at >= r->at.to) {
        r++;
    }
    if (is_own(r)) {
        return;
    }
    if (r == last && r->at.from == at && r > region->ranges && r[-1].at.to == at &&
        is_own(&r[-1]) && r[-1].protection == r->protection) {
        /* The rest of the range from which the page before was taken: that one's range goes on. */
        r[-1].at.to += PAGE;
        r->at.from += PAGE;
        r->offset += PAGE;
        return;
    }
    add_range((image_range){{at, at + PAGE}, region->file_bytes, r->protection});
    add_range(
        (image_range){{at + PAGE, r->at.to}, r->offset + (at + PAGE - r->at.from), r->protection});
    r->at.to = at;
}

/* Upwards; those are left out of which nothing is left. */
static void sort_ranges(void)
{
    size_t left = 0;

    for (size_t i = 0; i < region->range_count; i++) {
        image_range r = region->ranges[i];
        size_t at = left;
        if (r.at.from == r.at.to) {
            continue;
        }
        for (; at > 0 && region->ranges[at - 1].at.from > r.at.from; at--) {
            region->ranges[at] = region->ranges[at - 1];
        }
        region->ranges[at] = r;
        left++;
    }
    region->range_count = left;
}

/* Where each range of the delta begins in the delta's new file. */
static void number_own(void)
{
    region->view_bytes = region->file_bytes;
    for (size_t i = 0; i < region->range_count; i++) {
        image_range *r = &region->ranges[i];
        if (is_own(r)) {
            r->offset = region->view_bytes;
            region->view_bytes += r->at.to - r->at.from;
        }
    }
}

/* One view of both files, so that a page's number leads to its original in either. */
static int make_view(int own, uint64_t bytes_before)
{
    char *wide = (char *)syscall(SYS_mmap, NULL, region->view_bytes, PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t added = region->view_bytes - region->file_bytes;

    if (wide == MAP_FAILED ||
        syscall(SYS_mmap, wide, region->file_bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED,
                region->file,
                0) != (long)wide ||
        syscall(SYS_mmap, wide + region->file_bytes, added, PROT_READ, MAP_PRIVATE | MAP_FIXED, own,
                0) != (long)(wide + region->file_bytes)) {
        return -1;
    }
    syscall(SYS_munmap, region->view, bytes_before);
    region->view = wide;
    return 0;
}

/* From the first look at the pages on nothing may write to the image but system calls that fail:
 * see capture_move(). */
int image_extend(void)
{
    uint64_t bytes_before = region->view_bytes;
    int failed = 0, own;

    if (region->state != RUNNING || region->range_count > MOST_RANGES / 2) {
        errno = region->state != RUNNING ? EINVAL : E2BIG;
        return -1;
    }
    prepare_heap();
    own = (int)syscall(SYS_memfd_create, "tokamak-image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (own == -1) {
        return -1;
    }
    mappings_adopt();
    pages_take_changed(take_page);
    number_own();
    if (proc_visit_mappings(1, capture_collect, &failed) != 0 || failed || too_many_ranges ||
        region->view_bytes / PAGE > region->dirty_room ||
        syscall(SYS_ftruncate, own, region->view_bytes - region->file_bytes) != 0 ||
        make_view(own, bytes_before) != 0) {
        image_note_taint("its memory could not be added to the image");
        syscall(SYS_close, own);
        return -1;
    }
    capture_move(own, region->file_bytes);
    sort_ranges();
    for (size_t i = 0; i < region->range_count; i++) {
        if (is_own(&region->ranges[i])) {
            pages_populate(&region->ranges[i]);
        }
    }
    region->program_break = (uintptr_t)sbrk(0);
    capture_seal(own);
    syscall(SYS_close, own);
    if (check_learn() != 0) {
        image_note_taint("its memory could not be added to the image");
        return -1;
    }
    return 0;
}
