/* Spare memory: what one request mapped, for the next one that asks for as much.
 *
 *   mapped ──► [ taken ──► cleared ──► free ] … ──► unmapped, if not asked for in a long time
 *
 * It saves the system calls and the page faults, and with them a look at the page map: that is what
 * costs most in the roll-back of a request that maps anything. Two kinds:
 *  - Of PHP's allocator (reuse_code), in units of 2 MB. It expects zeros in a chunk's first page
 *    alone, so that one is cleared when it is handed out, and all others stay as they are.
 *  - Other plain memory. It has to be zero, so each page that was ever there is cleared.
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "spare.h"
#include "region.h"

/* Spare memory that was unused for this many roll-backs is unmapped. With 6, pages that are seldom
 * asked for would map it anew each time, which costs faults; with 640, one large page would hold it
 * for long. */
enum { USED_WITHIN = 64 };

static size_t size_of(const spare *s)
{
    return s->at.to - s->at.from;
}

static uint64_t bytes_held(void)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < region->spare_count; i++) {
        bytes += size_of(&region->spares[i]);
    }
    return bytes;
}

static int can_be_cleared(const new_mapping *m)
{
    int both = PROT_READ | PROT_WRITE;

    return (m->protection & both) == both && m->at.to - m->at.from <= CHUNK;
}

int spare_keep(const new_mapping *m, int is_free)
{
    int fits = m->is_of_allocator ? m->at.from % CHUNK == 0 : can_be_cleared(m);

    if (!m->is_plain || !fits || region->spare_count == MOST_SPARES ||
        bytes_held() + (m->at.to - m->at.from) > MOST_SPARE_BYTES) {
        return 0;
    }
    region->spares[region->spare_count++] = (spare){.at = m->at,
                                                .protection = m->protection,
                                                .is_of_allocator = m->is_of_allocator,
                                                .is_free = is_free && m->is_of_allocator,
                                                .used_at = region->roll_backs};
    return 1;
}

void *spare_take(size_t len, int protection, int is_of_allocator)
{
    for (size_t i = 0; i < region->spare_count; i++) {
        spare *s = &region->spares[i];
        if (s->is_free && size_of(s) == len && s->protection == protection &&
            s->is_of_allocator == is_of_allocator) {
            s->is_free = 0;
            s->used_at = region->roll_backs;
            if (is_of_allocator) {
                memset((void *)s->at.from, 0, PAGE);
            }
            return (void *)s->at.from;
        }
    }
    return NULL;
}

int spare_give_back(span at)
{
    for (size_t i = 0; i < region->spare_count; i++) {
        spare *s = &region->spares[i];
        if (!s->is_free && s->at.from == at.from && s->at.to == at.to) {
            s->is_free = s->is_of_allocator; /* the other kind after it was cleared */
            return 1;
        }
    }
    return 0;
}

int spare_begins_at(uintptr_t at)
{
    for (size_t i = 0; i < region->spare_count; i++) {
        if (region->spares[i].at.from == at) {
            return 1;
        }
    }
    return 0;
}

/* In their order: a request that does the same again finds each where it was. */
static void forget(size_t i)
{
    region->spare_count--;
    memmove(&region->spares[i], &region->spares[i + 1],
            (region->spare_count - i) * sizeof(*region->spares));
}

int spare_release(span at, span *released)
{
    for (size_t i = 0; i < region->spare_count; i++) {
        span s = region->spares[i].at;
        if (s.from < at.to && at.from < s.to) {
            forget(i);
            *released = s;
            return 1;
        }
    }
    return 0;
}

static void unmap(size_t i)
{
    syscall(SYS_munmap, region->spares[i].at.from, size_of(&region->spares[i]));
    forget(i);
}

/* Without a page fault since the last look no page has come. */
static int find_pages(spare *s)
{
    uint64_t entries[CHUNK / PAGE];
    size_t pages = size_of(s) / PAGE;

    if (syscall(SYS_pread64, region->page_map, entries, pages * 8,
                (off_t)(s->at.from / PAGE * 8)) !=
        (long)(pages * 8)) {
        return -1;
    }
    for (size_t i = 0; i < pages; i++) {
        s->pages[i / 64] |= (uint64_t)(entries[i] >> 62 != 0) << (i % 64);
    }
    return 0;
}

static void clear_pages(const spare *s)
{
    for (size_t i = 0; i < size_of(s) / PAGE; i++) {
        if (s->pages[i / 64] >> (i % 64) & 1) {
            memset((void *)(s->at.from + i * PAGE), 0, PAGE);
        }
    }
}

void spare_clear(int has_faulted)
{
    for (size_t i = region->spare_count; i-- > 0;) {
        spare *s = &region->spares[i];
        if (s->is_free ? region->roll_backs - s->used_at > USED_WITHIN
                       : !s->is_of_allocator && has_faulted && find_pages(s) != 0) {
            unmap(i);
            continue;
        }
        if (!s->is_free && !s->is_of_allocator) {
            clear_pages(s);
        }
        s->is_free = 1;
    }
}

void spare_drop(void)
{
    for (size_t i = region->spare_count; i-- > 0;) {
        if (region->spares[i].is_free) {
            syscall(SYS_munmap, region->spares[i].at.from, size_of(&region->spares[i]));
        }
    }
    region->spare_count = 0;
}
