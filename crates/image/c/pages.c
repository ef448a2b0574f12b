/* Which pages differ from the image, and their way back. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pages.h"
#include "region.h"

/* ---- the page map -------------------------------------------------------------------------------
 *
 * A page of the image that was never written to is the file's page. A write makes the kernel give
 * this process a copy, which is anonymous memory: the page map distinguishes the two
 * (Documentation/admin-guide/mm/pagemap.rst).
 */
struct page_region {
    uint64_t start, end, categories;
};

struct pm_scan_arg {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

#define PAGEMAP_SCAN _IOWR('f', 16, struct pm_scan_arg) /* Linux 6.7 */
enum { PAGE_IS_FILE = 1 << 2, PAGE_IS_PRESENT = 1 << 3, PAGE_IS_SWAPPED = 1 << 4 };

static const uint64_t entry_file = 1ull << 61, entry_there = 3ull << 62; /* present or swapped */

static void note_dirty(const image_range *r, uintptr_t at)
{
    uint32_t page = (uint32_t)((r->offset + (at - r->at.from)) / PAGE);

    if (region->is_dirty[page / 32] >> (page % 32) & 1) {
        return;
    }
    if (region->dirty_count == region->dirty_room) {
        /* cannot be: one bit a page */
        image_note_taint("more pages differ from the image than it has");
        return;
    }
    region->is_dirty[page / 32] |= 1u << (page % 32);
    region->dirty[region->dirty_count++] = (dirty_page){at, page, 0};
}

/* The range that ends last before or holds `at`, from range number `i` on: both go upwards. */
static const image_range *range_of(uintptr_t at, size_t *i)
{
    while (*i < region->range_count && region->ranges[*i].at.to <= at) {
        ++*i;
    }
    return *i < region->range_count && region->ranges[*i].at.from <= at ? &region->ranges[*i]
                                                                        : NULL;
}

/* One look at the ranges from number `first` to number `last` and at what lies between them. */
static int scan_ranges(size_t first, size_t last)
{
    uintptr_t end = region->ranges[last].at.to;
    size_t range = first;
    struct page_region found[64];
    struct pm_scan_arg ask = {.size = sizeof(ask),
                              .start = region->ranges[first].at.from,
                              .end = end,
                              .vec = (uintptr_t)found,
                              .vec_len = 64,
                              .category_inverted = PAGE_IS_FILE,
                              .category_mask = PAGE_IS_FILE,
                              .category_anyof_mask = PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
                              .return_mask = PAGE_IS_FILE};

    while (ask.start < end) {
        long count = syscall(SYS_ioctl, region->page_map, PAGEMAP_SCAN, &ask);
        if (count < 0) {
            return -1;
        }
        for (long i = 0; i < count; i++) {
            for (uintptr_t at = found[i].start; at < found[i].end; at += PAGE) {
                const image_range *r = range_of(at, &range);
                if (r) {
                    note_dirty(r, at);
                }
            }
        }
        ask.start = ask.walk_end;
    }
    return 0;
}

static int read_range(const image_range *r)
{
    uint64_t entries[512];

    for (uintptr_t at = r->at.from; at < r->at.to;) {
        size_t pages = (r->at.to - at) / PAGE;
        size_t some = pages < 512 ? pages : 512;
        ssize_t got =
            syscall(SYS_pread64, region->page_map, entries, some * 8, (off_t)(at / PAGE * 8));
        if (got <= 0) {
            return -1;
        }
        for (ssize_t i = 0; i < got / 8; i++) {
            if ((entries[i] & entry_there) && !(entries[i] & entry_file)) {
                note_dirty(r, at + (uintptr_t)i * PAGE);
            }
        }
        at += (uintptr_t)(got / 8) * PAGE;
    }
    return 0;
}

/* In the order of addresses: neighbours are copied together, and the processor fetches ahead.
 * Nearly sorted already. */
static void sort_dirty(size_t sorted)
{
    for (size_t i = sorted ? sorted : 1; i < region->dirty_count; i++) {
        dirty_page h = region->dirty[i];
        size_t at = i;
        for (; at > 0 && region->dirty[at - 1].at > h.at; at--) {
            region->dirty[at] = region->dirty[at - 1];
        }
        region->dirty[at] = h;
    }
}

/* ranges closer than this are looked at together: a process has many small ones */
enum { NEAR = 64 << 20 };

static void scan(void)
{
    size_t before = region->dirty_count;

    region->scans++;
    for (size_t i = 0, last; region->has_page_scan && i < region->range_count; i = last + 1) {
        for (last = i; last + 1 < region->range_count &&
                       region->ranges[last + 1].at.from - region->ranges[last].at.to < NEAR;
             last++) {
        }
        if (scan_ranges(i, last) != 0) {
            region->has_page_scan = 0; /* an older kernel: from now on the slower way */
        }
    }
    for (size_t i = 0; !region->has_page_scan && i < region->range_count; i++) {
        if (read_range(&region->ranges[i]) != 0) {
            image_note_taint("the page map cannot be read");
            return;
        }
    }
    sort_dirty(before);
}

long pages_faults(void)
{
    struct rusage usage;

    /* There is one thread; asking for all of them takes longer. */
    syscall(SYS_getrusage, RUSAGE_THREAD, &usage);
    return usage.ru_minflt + usage.ru_majflt - region->known_faults;
}

void pages_populate(const image_range *r)
{
    if (r->protection & PROT_READ) {
        syscall(SYS_madvise, r->at.from, r->at.to - r->at.from, MADV_POPULATE_READ);
    }
}

void pages_begin(int page_map)
{
    region->page_map = page_map;
    region->has_page_scan = 1;
    region->dirty_count = 0;
    region->faults = -1;
    for (size_t i = 0; i < region->range_count; i++) {
        pages_populate(&region->ranges[i]);
    }
}

/* ---- the way back
 * ---------------------------------------------------------------------------------------------- */

static const char *original(const dirty_page *h)
{
    return region->view + (size_t)h->page * PAGE;
}

enum {
    /* roll-backs between two looks at which dirty pages still change: a look
     * compares each of them with the image, which a tenth would do at nearly every roll-back;
     * ten times more would keep pages dirty long after the application has stopped writing them */
    LOOK_EVERY = 64,
    LOOKS_UNCHANGED =
        8 /* so many looks in a row, and the page is the file's again, for the first time */
};

/* Most requests write to some pages and leave them as they were. Such a page comes back at once
 * when it is let go of, and each time costs a fault and a look at the page map; so it is kept
 * longer each time, in the end for millions of requests. */
static uint32_t looks_to_drop(const dirty_page *h)
{
    uint8_t drops = region->drops[h->page];
    return LOOKS_UNCHANGED << (drops < 16 ? drops : 16);
}

/* Copies only what differs, and lets go of pages that have not been written to for long. */
static void restore_and_sort_out(void)
{
    size_t left = 0;

    for (size_t i = 0; i < region->dirty_count; i++) {
        dirty_page h = region->dirty[i];
        if (memcmp((void *)h.at, original(&h), PAGE) != 0) {
            memcpy((void *)h.at, original(&h), PAGE);
            h.unchanged = 0;
        } else if (++h.unchanged >= looks_to_drop(&h) &&
                   syscall(SYS_madvise, h.at, PAGE, MADV_DONTNEED) == 0) {
            region->drops[h.page] += region->drops[h.page] < UINT8_MAX;
            region->is_dirty[h.page / 32] &= ~(1u << (h.page % 32));
            continue;
        }
        region->dirty[left++] = h;
    }
    region->dirty_count = left;
}

static void copy_back(void)
{
    const dirty_page *dirty = region->dirty, *end = dirty + region->dirty_count;

    while (dirty < end) {
        const dirty_page *first = dirty++;
        while (dirty < end && dirty->at == dirty[-1].at + PAGE &&
               dirty->page == dirty[-1].page + 1) {
            dirty++;
        }
        /* The next run begins on another page, where the processor's own fetching ahead stops. */
        if (dirty < end) {
            __builtin_prefetch(original(dirty));
            __builtin_prefetch(original(dirty) + 64);
            __builtin_prefetch(original(dirty) + 128);
        }
        memcpy((void *)first->at, original(first), (size_t)(dirty - first) * PAGE);
    }
}

int pages_have_faulted(void)
{
    return pages_faults() != region->faults;
}

void pages_restore(int has_faulted)
{
    if (has_faulted) {
        scan();
    }
    if (++region->roll_backs % LOOK_EVERY == 0) {
        restore_and_sort_out();
    } else {
        copy_back();
    }
    if (has_faulted) {
        region->faults = pages_faults(); /* the copying itself may have faulted */
    }
}

/* Private copies that equal the image's file stay as they are: dirty, until they leave the set as
 * others do. Those of the private delta become pages of its next file, under other numbers. */
void pages_take_changed(void (*take)(uintptr_t at))
{
    uint32_t own = (uint32_t)(region->file_bytes / PAGE);
    size_t left = 0;

    scan();
    for (size_t i = 0; i < region->dirty_count; i++) {
        dirty_page h = region->dirty[i];
        if (h.page < own && memcmp((void *)h.at, original(&h), PAGE) == 0) {
            region->dirty[left++] = h;
        } else {
            region->is_dirty[h.page / 32] &= ~(1u << (h.page % 32));
            take(h.at);
        }
    }
    region->dirty_count = left;
    memset(region->drops + own, 0, region->view_bytes / PAGE - own);
    region->faults = -1;
}

int pages_compare(void)
{
    int wrong = 0;

    for (size_t i = 0; i < region->range_count; i++) {
        const image_range *r = &region->ranges[i];
        if (!(r->protection & PROT_READ)) {
            continue;
        }
        for (uintptr_t at = r->at.from; at < r->at.to; at += PAGE) {
            /* The thread's descriptor: its number is this process's, and the kernel writes to it at
             * will. */
            if (region->tid_at / PAGE == at / PAGE) {
                continue;
            }
            wrong += memcmp((void *)at, region->view + r->offset + (at - r->at.from), PAGE) != 0;
        }
    }
    return wrong;
}
