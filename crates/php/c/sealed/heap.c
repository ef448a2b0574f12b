/* Makes PHP's heap full before the image is taken.
 *
 * A request that found free places in the image's chunks would write to as many pages of the image,
 * each to be copied back. With all places taken its first allocation makes a chunk of its own,
 * which the roll-back forgets. Done with the public allocator alone: what is allocated here is
 * never given back.
 */
#include <Zend/zend_alloc_sizes.h>

#include "sealed/heap.h"
#include "state.h"

#define BIN(number, size, count, pages, x, y) {size, count},
static const struct {
    size_t size, count;
} bins[] = {ZEND_MM_BINS_INFO(BIN, , )};
#undef BIN

static uintptr_t chunk_of(const void *block)
{
    return (uintptr_t)block & ~(uintptr_t)(ZEND_MM_CHUNK_SIZE - 1);
}

void heap_give_back(void)
{
    if (is_zend_mm()) {
        zend_mm_gc(zend_mm_get_heap());
    }
}

void heap_plug(void)
{
    /* volatile: emalloc() of a constant takes a shorter way */
    volatile size_t size = ZEND_MM_PAGE_SIZE;
    size_t before;
    uintptr_t chunk;
    char *block;

    if (!is_zend_mm()) {
        return;
    }
    heap_give_back(); /* no chunk in reserve: the request would take that */
    zend_set_memory_limit((size_t)Z_L(-1) >> 1);
    before = zend_memory_usage(1);
    do {
        block = emalloc(size);
    } while (zend_memory_usage(1) == before);
    chunk = chunk_of(block);
    for (size_t i = 0; i < sizeof(bins) / sizeof(*bins); i++) {
        size = bins[i].size;
        while (chunk_of(emalloc(size)) != chunk) {
        }
        /* That was the first place of a new run of pages; now the others. */
        for (size_t n = 1; n < bins[i].count; n++) {
            emalloc(size);
        }
    }
    /* Nothing else allocates meanwhile, so the chunk's pages are given out in order, up to the last
     * one. */
    size = ZEND_MM_PAGE_SIZE;
    do {
        block = emalloc(size);
    } while (chunk_of(block) == chunk && chunk_of(block + ZEND_MM_PAGE_SIZE) == chunk);
    zend_set_memory_limit(PG(memory_limit));
}
