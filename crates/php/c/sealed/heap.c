/* Makes PHP's heap full before the image is taken.
 *
 * A request that found free places in the image's chunks would write to as many pages of the image,
 * each to be copied back. With all places taken its first allocation makes a chunk of its own,
 * which the roll-back forgets. Done with the public allocator alone: what is allocated here is
 * never given back.
 */
#include <Zend/zend_alloc_sizes.h>

#include "sealed/heap.h"
#include "ground/state.h"

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

/* Not `emalloc()` by itself: of a constant it takes a shorter way. */
static void *take(size_t size, int with_zeros)
{
    void *block = _emalloc(size);

    return with_zeros ? memset(block, 0, size) : block;
}

/* ---- what the plugs take counts for no request ----
 *
 * The memory manager counts what it has given out and what it has of the system, in words that
 * nothing else leads to. They are found by their values in three moments. */

enum { WORDS = 64, MOMENTS = 3 };

typedef struct {
    size_t *given, *mapped; /* NULL: it was not found, and the plugs count */
} counts;

static size_t *find_count(size_t seen[MOMENTS][WORDS], const size_t values[MOMENTS])
{
    size_t found = WORDS;

    for (size_t i = 0; i < WORDS; i++) {
        int is_it = 1;
        for (size_t m = 0; m < MOMENTS; m++) {
            is_it &= seen[m][i] == values[m];
        }
        if (is_it && found != WORDS) {
            return NULL;
        }
        found = is_it ? i : found;
    }
    return found == WORDS ? NULL : (size_t *)zend_mm_get_heap() + found;
}

static counts find_counts(void)
{
    size_t seen[MOMENTS][WORDS], given[MOMENTS], mapped[MOMENTS];
    void *block = NULL;

    for (size_t m = 0; m < MOMENTS; m++) {
        memcpy(seen[m], zend_mm_get_heap(), sizeof(seen[m]));
        given[m] = zend_memory_usage(0);
        mapped[m] = zend_memory_usage(1);
        if (m == 0) {
            block = _emalloc(2 * ZEND_MM_CHUNK_SIZE);
        } else if (m == 1) {
            efree(block);
        }
    }
    return (counts){find_count(seen, given), find_count(seen, mapped)};
}

static void discount(counts now, size_t given, size_t mapped)
{
    if (now.given && now.mapped) {
        *now.given = given;
        *now.mapped = mapped;
        zend_memory_reset_peak_usage();
    }
}

static void plug(int with_zeros)
{
    static size_t counted;
    size_t size = ZEND_MM_PAGE_SIZE, before, given;
    uintptr_t chunk;
    char *block;
    counts now;

    zend_set_memory_limit((size_t)Z_L(-1) >> 1);
    now = find_counts(); /* before the plugs: it allocates, so it would open a chunk behind them */
    heap_give_back(); /* no chunk in reserve: the request would take that */
    before = zend_memory_usage(1);
    given = zend_memory_usage(0);
    do {
        block = take(size, with_zeros);
    } while (zend_memory_usage(1) == before);
    chunk = chunk_of(block);
    for (size_t i = 0; i < sizeof(bins) / sizeof(*bins); i++) {
        size = bins[i].size;
        while (chunk_of(take(size, with_zeros)) != chunk) {
        }
        /* That was the first place of a new run of pages; now the others. */
        for (size_t n = 1; n < bins[i].count; n++) {
            take(size, with_zeros);
        }
    }
    /* Nothing else allocates meanwhile, so the chunk's pages are given out in order, up to the last
     * one. */
    size = ZEND_MM_PAGE_SIZE;
    do {
        block = take(size, with_zeros);
    } while (chunk_of(block) == chunk && chunk_of(block + ZEND_MM_PAGE_SIZE) == chunk);
    /* The request's first allocation makes a chunk, which is counted in place of the boot's last.
     * The heap may be plugged again before that. */
    if (before != counted) {
        counted = before - ZEND_MM_CHUNK_SIZE;
    }
    discount(now, given, counted);
    zend_set_memory_limit(PG(memory_limit));
}

void heap_plug(void)
{
    if (is_zend_mm()) {
        plug(0);
    }
}

/* ---- a look at all of it ---- */

/* The beginning of PHP's own `struct _zend_mm_chunk`, the same from 7.0 to 8.4. */
typedef struct chunk {
    const void *heap;
    const struct chunk *next;
} chunk;

/* It holds what the memory manager knows of itself. */
static const chunk *first_chunk(void)
{
    return (const chunk *)chunk_of(zend_mm_get_heap());
}

int heap_visit(void (*visit)(const void **from, const void **to))
{
    const chunk *first = first_chunk();

    if (!is_zend_mm() || first->heap != zend_mm_get_heap()) {
        return -1;
    }
    plug(1);
    for (const chunk *c = first; c; c = c->next == first ? NULL : c->next) {
        /* without the first page, which is the memory manager's */
        visit((const void **)((uintptr_t)c + ZEND_MM_PAGE_SIZE),
              (const void **)((uintptr_t)c + ZEND_MM_CHUNK_SIZE));
    }
    return 0;
}

size_t heap_size_of(const void *block)
{
    const chunk *first = is_zend_mm() ? first_chunk() : NULL;

    for (const chunk *c = first; c; c = c->next == first ? NULL : c->next) {
        if ((const chunk *)chunk_of(block) == c && (const chunk *)block != c) {
            return _zend_mem_block_size((void *)block);
        }
    }
    return 0;
}
