/* The memory that survives roll-backs: reserving it, and a child's own copy of it. */
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kept.h"
#include "mappings.h"

kept_memory *kept;

/* Of stack that the image may hold: what calls image_take(). */
enum { STACK_ROOM = 1 << 20 };

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
}

/* Kept memory: the struct, the caller's bytes, text from the kernel, the stack, the hot pages
 * (address space for as many as a machine has; memory is used when they are). */
void *image_open(size_t callers, int page_map)
{
    size_t hot_room = (size_t)8 << 30 >> 12; /* 8 GB of image */
    size_t at_callers = whole_pages(sizeof(kept_memory));
    size_t at_scratch = at_callers + whole_pages(callers);
    size_t at_stack = at_scratch + SCRATCH;
    size_t at_bits = at_stack + STACK_ROOM;
    size_t at_drops = at_bits + whole_pages(hot_room / 8);
    size_t at_hot = at_drops + whole_pages(hot_room);
    size_t size = at_hot + whole_pages(hot_room * sizeof(hot_page));
    char *base =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (base == MAP_FAILED) {
        return NULL;
    }
    kept = (kept_memory *)base;
    kept->state = OPEN;
    kept->owner = getpid();
    kept->file = -1;
    kept->page_map = page_map;
    kept->size = size;
    kept->callers = base + at_callers;
    kept->scratch = base + at_scratch;
    kept->stack = base + at_stack;
    kept->stack_room = STACK_ROOM;
    kept->is_hot = (uint32_t *)(base + at_bits);
    kept->drops = (uint8_t *)(base + at_drops);
    kept->hot = (hot_page *)(base + at_hot);
    kept->hot_room = hot_room;
    mappings_watch();
    return kept->callers;
}

/* Kept memory is shared memory: after a fork parent and child have the same. The child makes itself
 * a copy. */
int kept_own(void)
{
    size_t used = (size_t)((char *)kept->is_hot - (char *)kept);
    char *mine = (char *)syscall(SYS_mmap, NULL, kept->size, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (mine == MAP_FAILED) {
        return -1;
    }
    memcpy(mine, kept, sizeof(*kept));
    memcpy(mine + ((char *)kept->callers - (char *)kept), kept->callers,
           (size_t)(kept->scratch - (char *)kept->callers));
    memcpy(mine + (kept->stack - (char *)kept), (void *)kept->stack,
           used - (size_t)(kept->stack - (char *)kept));
    return syscall(SYS_mremap, mine, kept->size, kept->size, MREMAP_MAYMOVE | MREMAP_FIXED, kept) ==
                   (long)kept
               ? 0
               : -1;
}
