/* The memory that survives roll-backs: reserving it, and a child's own copy of it. */
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "region.h"
#include "mappings.h"

persistent_region *region;

/* Of stack that the image may hold: what calls image_take(). */
enum { STACK_ROOM = 1 << 20 };

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
}

/* The persistent region: the struct, the caller's bytes, text from the kernel, the stack, the dirty
 * pages (address space for as many as a machine has; memory is used when they are). */
void *image_open(size_t callers, int page_map)
{
    size_t dirty_room = (size_t)8 << 30 >> 12; /* 8 GB of image */
    size_t at_callers = whole_pages(sizeof(persistent_region));
    size_t at_scratch = at_callers + whole_pages(callers);
    size_t at_stack = at_scratch + SCRATCH;
    size_t at_bits = at_stack + STACK_ROOM;
    size_t at_drops = at_bits + whole_pages(dirty_room / 8);
    size_t at_hot = at_drops + whole_pages(dirty_room);
    size_t size = at_hot + whole_pages(dirty_room * sizeof(dirty_page));
    char *base =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (base == MAP_FAILED) {
        return NULL;
    }
    region = (persistent_region *)base;
    region->state = OPEN;
    region->owner = getpid();
    region->file = -1;
    region->page_map = page_map;
    region->size = size;
    region->callers = base + at_callers;
    region->scratch = base + at_scratch;
    region->stack = base + at_stack;
    region->stack_room = STACK_ROOM;
    region->is_dirty = (uint32_t *)(base + at_bits);
    region->drops = (uint8_t *)(base + at_drops);
    region->dirty = (dirty_page *)(base + at_hot);
    region->dirty_room = dirty_room;
    mappings_watch();
    return region->callers;
}

/* The persistent region is shared memory: after a fork parent and child have the same. The child
 * makes itself a copy. */
int region_own(void)
{
    size_t used = (size_t)((char *)region->is_dirty - (char *)region);
    char *mine = (char *)syscall(SYS_mmap, NULL, region->size, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (mine == MAP_FAILED) {
        return -1;
    }
    memcpy(mine, region, sizeof(*region));
    memcpy(mine + ((char *)region->callers - (char *)region), region->callers,
           (size_t)(region->scratch - (char *)region->callers));
    memcpy(mine + (region->stack - (char *)region), (void *)region->stack,
           used - (size_t)(region->stack - (char *)region));
    return syscall(SYS_mremap, mine, region->size, region->size, MREMAP_MAYMOVE | MREMAP_FIXED,
                   region) == (long)region
               ? 0
               : -1;
}
