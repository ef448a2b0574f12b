/* The image: all private memory of this process as it was at one moment, and the way back to that
 * moment.
 *
 *            image_open          image_take            fork, image_adopt
 *   (none) ─────────────► OPEN ─────────────► TAKEN ───────────────────► RUNNING ◄──┐
 *                          │                    │                          │  │     │ image_roll_back,
 *                          └── refused: why     └── forks children         │  └─────┘ image_extend
 *                                                                          ▼
 *                                                               TAINTED:  leave the process
 *
 * image_take() returns once for having taken the image, and again after each roll-back, like fork()
 * in the same process: same stack, same memory, another return value. Whatever happened in between
 * never happened, as far as memory shows. What memory does not show (descriptors, directory,
 * signals, timers) is the caller's to put back.
 *
 * image_extend() gives one process a private delta of its own: all that differs from the image at
 * that moment. From then on "the image" is both of them, for this process. The private delta has
 * ranges as the image has, of a file of its own: new memory (mappings, a break that has grown), and
 * pages of the image that have changed, which are cut out of its ranges. Called again, it writes
 * the delta, and what has been added to it, to another file.
 *
 * Invariants. image_check() examines 1 to 4 and 6 in the running process.
 *  1. The image's file is sealed: nobody can change it, no process and no descriptor. So is the
 *     private delta's, which has no descriptor left.
 *  2. Every range of the image is a private mapping of its file, with the protection that it had
 *     when it was taken.
 *  3. A page of the image that differs from the file is dirty: the set of dirty pages covers all
 *     pages that the kernel calls private copies, from one look at the page map to the next page
 *     fault.
 *  4. Nothing is mapped but what was mapped when the process began to run, what is in the list of
 *     new mappings, and what libc mapped by itself and image_check() has not yet taken away.
 *  5. The persistent region is shared memory of this process alone. It holds all that survives a
 *     roll-back, and no pointer in it leads to the image, except for the stack's and the ranges'
 *     addresses.
 *  6. One thread. A second one would run on while its memory goes back.
 *  7. A roll-back allocates nothing, and writes nothing to the image but the image.
 *
 * Replace what is tainted: what cannot be undone is noted, image_taint() names it, and the caller
 * ends the process.
 */
#ifndef TOKAMAK_IMAGE_H
#define TOKAMAK_IMAGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef enum {
    IMAGE_TAKEN,    /* the image exists from now on */
    IMAGE_RESTORED, /* a roll-back brought us here */
    IMAGE_REFUSED   /* this process cannot be captured; image_reason() names the culprit */
} image_moment;

typedef struct {
    uint64_t bytes;       /* memory in the image */
    uint64_t roll_backs;
    uint64_t dirty_pages; /* copied by each roll-back */
    uint64_t scans;       /* looks at the page map */
    uint64_t strays;      /* mappings that libc left behind and image_check() took away */
    uint64_t last_ns;     /* duration of the last roll-back */
    uint64_t new_bytes;   /* mapped by the last request, or kept for the next one */
} image_stats;

/* Before main() does anything: makes libc take its memory from where it can be put back. */
void image_prepare(void);

/* Reserves the persistent region: `size` zeroed bytes for the caller, which survive every
 * roll-back. NULL: errno says why. The page map is this process's /proc/self/pagemap, or below 0
 * the number of the error for which it could not be opened. */
void *image_open(size_t size, int page_map);

/* Memory that the library with this code maps at a border of 2 MB goes to the next request as it
 * is, without being zeroed but for its first page: for PHP's allocator, which expects zeros in the
 * map that it keeps there and nowhere else. Before image_take(). */
void image_reuse_for(const void *code);

/* Takes the image. Call it with no more than one thread. */
image_moment image_take(void);
const char *image_reason(void);

/* In a child that was forked after image_take(): from now on this process can be rolled back. 0, or
 * -1 and errno. The page map is its own. The caller rolls back at once: what the parent did since
 * it took the image is in the child's memory. */
int image_adopt(int page_map);

/* Returns from image_take() with IMAGE_RESTORED. From any depth of the same thread's stack. Never
 * in a child that a running process has forked: the persistent region is its parent's. */
_Noreturn void image_roll_back(void);

/* In a running process: what its memory holds now, but for the stack, is what it goes back to from
 * here on. The caller rolls back at once. 0, or -1 and errno: nothing has changed, or there is a
 * taint. E2BIG: earlier calls have left the image in too many pieces. */
int image_extend(void);

/* True while memory goes back: a signal handler that looks at anything but the persistent region
 * must return at once. */
int image_is_rolling_back(void);

/* Notes something that cannot be undone; `what` is a constant text. The first one counts. */
void image_note_taint(const char *what);
/* Why this process must not serve another request; NULL: it may. */
const char *image_taint(void);

/* Compares this process with the invariants, unmaps what libc left behind, and notes taints. With
 * `bytes`, compares every byte too: of use right after a roll-back only, and slow. Returns the
 * number of things found wrong. */
int image_check(int bytes);

void image_get_stats(image_stats *stats);

/* Outside of a running image: calls this function for each file, or piece of shared memory, that
 * is mapped from now on, and of all that is unmapped; not of what libc does by itself. */
void image_watch_mappings(void (*notify)(const void *at, int is_new));

/* Brings shared memory that others have written to, or will, to a running process: pages that come
 * this way are no page faults that the roll-back has to explain. Before Linux 5.14: nothing. */
void image_populate_shared(const void *at, size_t len);

/* Whether an address lies in the image. */
int image_holds(const void *address);

/* What the program calls in place of libc's functions of these names: a running process must know
 * all that is mapped, and keep what the image holds. `caller` is the code that asks, `words` what
 * follows the option. */
void *image_mmap(void *address, size_t len, int protection, int flags, int fd, off_t offset,
                 const void *caller);
int image_munmap(void *address, size_t len);
void *image_mremap(void *address, size_t old_len, size_t len, int flags, void *wanted);
int image_mprotect(void *address, size_t len, int protection);
int image_prctl(int option, const unsigned long words[4]);

#endif
