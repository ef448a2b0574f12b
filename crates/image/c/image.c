/* Taking the image, and the roll-back. See image.h for the contract. */
#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kept.h"

kept_memory *kept;

extern void *__libc_stack_end; /* where the first frame begins; from the dynamic linker */

enum {
    STACK_ROOM = 1 << 20, /* of stack that the image may hold: what calls image_take() */
    MARGIN = 16 << 10,    /* between the stack that goes back and the frames that do it */
    SLACK =
        256 << 10 /* free memory at the end of the heap, so that a request seldom moves the break */
};

void image_prepare(void)
{
    /* All from the break: libc maps and unmaps big blocks behind our back, and the break can be put
     * back. It is never lowered: that would unmap a part of the image. */
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, SLACK);
}

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
}

static __attribute__((format(printf, 1, 2))) int refuse(const char *format, ...)
{
    va_list rest;

    va_start(rest, format);
    vsnprintf(kept->reason, sizeof(kept->reason), format, rest);
    va_end(rest);
    return -1;
}

const char *image_reason(void)
{
    return kept ? kept->reason : "there is no kept memory";
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

static int find_code(const mapping *m, void *address)
{
    if ((uintptr_t)address >= m->at.from && (uintptr_t)address < m->at.to) {
        kept->reuse_code = m->at;
        return 1;
    }
    return 0;
}

void image_reuse_for(const void *code)
{
    mappings_visit(0, find_code, (void *)code);
}

/* ---- taking ---- */

static int threads(void)
{
    char *at = NULL;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd == -1 ? -1 : read(fd, kept->scratch, SCRATCH - 1);

    syscall(SYS_close, fd);
    if (got > 0) {
        kept->scratch[got] = 0;
        at = strstr(kept->scratch, "\nThreads:");
    }
    return at ? atoi(at + 9) : -1;
}

static int collect(const mapping *m, void *failed)
{
    image_range *r;

    if (m->is_mark_of_forks) {
        if (kept->mark_count == MOST_MARKS) {
            *(int *)failed = refuse("more than %d mappings are wiped on fork", MOST_MARKS);
            return 1;
        }
        kept->marks[kept->mark_count++] = m->at;
    }
    if (!m->is_private || !(m->protection & PROT_WRITE) || m->is_stack || m->is_fixed ||
        mappings_touch_image(m->at)) {
        return 0;
    }
    if (kept->range_count == MOST_RANGES) {
        *(int *)failed = refuse("the process has more than %d writable mappings", MOST_RANGES);
        return 1;
    }
    r = &kept->ranges[kept->range_count++];
    *r = (image_range){m->at, kept->view_bytes, m->protection};
    kept->view_bytes += m->at.to - m->at.from;
    kept->bytes += m->at.to - m->at.from;
    return 0;
}

/* Pages that a range of anonymous memory never touched are zero, and stay holes in the file. */
static int copy_range(const image_range *r, int file, uint64_t file_begins)
{
    for (uintptr_t at = r->at.from; at < r->at.to;) {
        uint64_t entries[512];
        size_t pages = (r->at.to - at) / PAGE, some = pages < 512 ? pages : 512;
        if (syscall(SYS_pread64, kept->page_map, entries, some * 8, (off_t)(at / PAGE * 8)) !=
            (long)(some * 8)) {
            return -1;
        }
        for (size_t i = 0; i < some; i++, at += PAGE) {
            long put;
            /* Without an entry: a hole, or a page of a file that nobody has read yet. Reading
             * tells. */
            if (!(entries[i] >> 62) && *(volatile char *)at == 0) {
                static const char zeros[PAGE];
                if (memcmp((void *)at, zeros, PAGE) == 0) {
                    continue;
                }
            }
            put = syscall(SYS_pwrite64, file, at, PAGE,
                          (off_t)(r->offset - file_begins + (at - r->at.from)));
            if (put != PAGE) {
                return -1;
            }
        }
    }
    return 0;
}

/* Between the copy of a range and its mapping nothing may write to it: only local variables, kept
 * memory and system calls in here. A failure in the middle cannot be undone, so it ends the
 * process. */
static void move_into_file(int file, uint64_t file_begins)
{
    for (size_t i = 0; i < kept->range_count; i++) {
        const image_range *r = &kept->ranges[i];
        size_t len = r->at.to - r->at.from;
        if (r->offset < file_begins) {
            continue;
        }
        if (copy_range(r, file, file_begins) != 0 ||
            syscall(SYS_mmap, r->at.from, len, r->protection, MAP_PRIVATE | MAP_FIXED, file,
                    r->offset - file_begins) != (long)r->at.from) {
            static const char text[] =
                "tokamak: the memory image could not be written; is there too little memory?\n";
            syscall(SYS_write, 2, text, sizeof(text) - 1);
            syscall(SYS_exit_group, 1);
        }
        syscall(SYS_madvise, r->at.from, len, MADV_NOHUGEPAGE);
    }
}

/* The kernel writes the processor's number into the thread's descriptor at will, which a roll-back
 * would turn back. Nobody needs it: libc asks the kernel instead. From glibc 2.35 on. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static void stop_rseq(void)
{
#if defined(__x86_64__)
    const uint32_t signature = 0x53053053;
#elif defined(__aarch64__)
    const uint32_t signature = 0xd428bc00;
#endif
    const int unregister = 1, none = -2;
    char *area;

    if (!&__rseq_offset || !&__rseq_size || __rseq_size == 0) {
        return;
    }
    area = (char *)__builtin_thread_pointer() + __rseq_offset;
    /* Libc registers at least 32 bytes, whatever it says of their use. */
    if (syscall(SYS_rseq, area, __rseq_size < 32 ? 32 : __rseq_size, unregister, signature) == 0) {
        memcpy(area + sizeof(uint32_t), &none, sizeof(none)); /* cpu_id: not registered */
    }
}

/* The environment's array lies above the stack's first frame, where nothing is put back. */
static int move_environment(void)
{
    size_t count = 0;
    char **copy;

    while (environ && environ[count]) {
        count++;
    }
    copy = malloc((count + 1) * sizeof(*copy));
    if (!copy) {
        return -1;
    }
    if (count) {
        memcpy(copy, environ, count * sizeof(*copy));
    }
    copy[count] = NULL;
    environ = copy;
    return 0;
}

/* Fills the holes of libc's heap, so that a request's blocks lie side by side at its end: few pages
 * to copy back instead of one for each hole. What is allocated here is never given back. */
static void plug_heap(void)
{
    struct mallinfo2 now = mallinfo2();
    uintptr_t end = (uintptr_t)sbrk(0) - now.keepcost;
    size_t size = 1 << 20;
    char *block;

    while (size >= 16) {
        while ((block = malloc(size)) && (uintptr_t)block < end) {
        }
        free(block);
        size = size > 2048 ? size / 2 : size - 16;
    }
}

static void settle_heap(void)
{
    void *volatile slack; /* volatile: a compiler may leave out a malloc() that is only freed */

    plug_heap();
    slack = malloc(SLACK);
    free(slack);
}

static void seal(int file)
{
    syscall(SYS_fcntl, file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
}

static int prepare_to_take(void)
{
    int count = threads(), failed = 0;
    char first[1];

    if (!kept || kept->state != OPEN) {
        return -1;
    }
    if (count != 1) {
        return refuse("%d threads run; an image can hold only one", count);
    }
    /* Libc's generator keeps its state in memory that the kernel drops: it has to exist before. */
    if (getrandom(first, sizeof(first), GRND_NONBLOCK) == -1 && errno != EAGAIN) {
        return refuse("no random numbers: %s", strerror(errno));
    }
    settle_heap();
    if (move_environment() != 0) {
        return refuse("no memory");
    }
    stop_rseq();
    if (kept->page_map < 0) {
        return refuse("/proc/self/pagemap: %s", strerror(-kept->page_map));
    }
    kept->file = (int)syscall(SYS_memfd_create, "tokamak-image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (kept->file == -1) {
        return refuse("memfd_create: %s", strerror(errno));
    }
    kept->range_count = kept->mark_count = 0;
    kept->view_bytes = kept->bytes = 0;
    if (mappings_visit(1, collect, &failed) != 0) {
        return refuse("/proc/self/smaps: %s", strerror(errno));
    }
    if (failed) {
        return -1;
    }
    kept->file_bytes = kept->bytes;
    if (kept->bytes / PAGE > kept->hot_room) {
        return refuse("the process has %zu MB of writable memory", (size_t)(kept->bytes >> 20));
    }
    if (syscall(SYS_ftruncate, kept->file, kept->bytes) != 0) {
        return refuse("the image's file: %s", strerror(errno));
    }
    kept->view =
        (const char *)syscall(SYS_mmap, NULL, kept->bytes, PROT_READ, MAP_PRIVATE, kept->file, 0);
    if ((const void *)kept->view == MAP_FAILED) {
        return refuse("the image's view: %s", strerror(errno));
    }
    kept->stack_high = (uintptr_t)__libc_stack_end;
    kept->program_break = (uintptr_t)sbrk(0);
    kept->owner = getpid();
    return 0;
}

/* A frame below the one that sets the moment, so that all of that one is above it. */
static __attribute__((noinline)) int keep_stack(void)
{
    kept->stack_low = (uintptr_t)__builtin_frame_address(0);
    if (kept->stack_high - kept->stack_low > kept->stack_room) {
        return refuse("%zu kB of stack are in use",
                      (size_t)(kept->stack_high - kept->stack_low) >> 10);
    }
    memcpy(kept->stack, (void *)kept->stack_low, kept->stack_high - kept->stack_low);
    return 0;
}

image_moment image_take(void)
{
    if (prepare_to_take() != 0) {
        return IMAGE_REFUSED;
    }
    if (_setjmp(kept->moment) != 0) {
        return IMAGE_RESTORED;
    }
    if (keep_stack() != 0) {
        return IMAGE_REFUSED;
    }
    kept->state = TAKEN;
    move_into_file(kept->file, 0);
    seal(kept->file);
    syscall(SYS_close, kept->page_map);
    return IMAGE_TAKEN;
}

/* ---- a worker begins ---- */

/* Kept memory is shared memory: after a fork parent and child have the same. The child makes itself
 * a copy. */
static int own_kept_memory(void)
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

/* Libc writes a thread's number into its descriptor at a fork; signalling oneself depends on it.
 * The roll-back would bring the zygote's number back, so it is found and written again each
 * time. */
static size_t find_thread_number(pid_t zygote)
{
    uintptr_t self = (uintptr_t)pthread_self();

    for (size_t i = 0; i < kept->range_count; i++) {
        const image_range *r = &kept->ranges[i];
        for (uintptr_t at = self; at >= r->at.from && at < r->at.to && at < self + 2304;
             at += sizeof(pid_t)) {
            pid_t before;
            memcpy(&before, kept->view + r->offset + (at - r->at.from), sizeof(before));
            if (before == zygote && *(pid_t *)at == getpid()) {
                return at;
            }
        }
    }
    return 0;
}

int image_adopt(int page_map)
{
    pid_t zygote = kept->owner;

    if (kept->state != TAKEN || page_map < 0) {
        errno = EINVAL;
        return -1;
    }
    if (own_kept_memory() != 0) {
        return -1;
    }
    pages_begin(page_map);
    kept->tid_at = find_thread_number(zygote);
    kept->owner = getpid();
    if (mappings_learn() != 0) {
        return -1;
    }
    kept->state = RUNNING;
    return 0;
}

/* ---- the addition ---- */

static int too_many_ranges;

static image_range *add_range(image_range r)
{
    if (kept->range_count == MOST_RANGES) {
        too_many_ranges = 1;
        return NULL;
    }
    kept->ranges[kept->range_count] = r;
    return &kept->ranges[kept->range_count++];
}

/* Of a page that the image has as well: its range is cut, and what is between the parts is a range
 * of the addition. */
static void take_page(uintptr_t at)
{
    image_range *last = &kept->ranges[kept->range_count - 1], *r = kept->ranges;

    while (at < r->at.from || at >= r->at.to) {
        r++;
    }
    kept->view_bytes += PAGE;
    if (r == last && r->at.from == at && r > kept->ranges && r[-1].at.to == at &&
        r[-1].offset >= kept->file_bytes) {
        /* The rest of the range from which the page before was taken: that one's range goes on. */
        r[-1].at.to += PAGE;
        r->at.from += PAGE;
        r->offset += PAGE;
        return;
    }
    add_range((image_range){{at, at + PAGE}, kept->view_bytes - PAGE, r->protection});
    add_range(
        (image_range){{at + PAGE, r->at.to}, r->offset + (at + PAGE - r->at.from), r->protection});
    r->at.to = at;
}

/* Upwards; those are left out of which nothing is left. */
static void sort_ranges(void)
{
    size_t left = 0;

    for (size_t i = 0; i < kept->range_count; i++) {
        image_range r = kept->ranges[i];
        size_t at = left;
        if (r.at.from == r.at.to) {
            continue;
        }
        for (; at > 0 && kept->ranges[at - 1].at.from > r.at.from; at--) {
            kept->ranges[at] = kept->ranges[at - 1];
        }
        kept->ranges[at] = r;
        left++;
    }
    kept->range_count = left;
}

/* One view of both files, so that a page's number leads to its original in either. */
static int widen_view(int own)
{
    char *wide = (char *)syscall(SYS_mmap, NULL, kept->view_bytes, PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t added = kept->view_bytes - kept->file_bytes;

    if (wide == MAP_FAILED ||
        syscall(SYS_mmap, wide, kept->file_bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, kept->file,
                0) != (long)wide ||
        syscall(SYS_mmap, wide + kept->file_bytes, added, PROT_READ, MAP_PRIVATE | MAP_FIXED, own,
                0) != (long)(wide + kept->file_bytes)) {
        return -1;
    }
    syscall(SYS_munmap, kept->view, kept->file_bytes);
    kept->view = wide;
    return 0;
}

/* From the first look at the pages on nothing may write to the image but system calls that fail:
 * see move_into_file(). */
int image_extend(void)
{
    int failed = 0, own;

    if (kept->state != RUNNING || kept->view_bytes != kept->file_bytes) {
        errno = EINVAL;
        return -1;
    }
    settle_heap();
    own = (int)syscall(SYS_memfd_create, "tokamak-image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (own == -1) {
        return -1;
    }
    mappings_adopt();
    pages_take_changed(take_page);
    if (mappings_visit(1, collect, &failed) != 0 || failed || too_many_ranges ||
        kept->view_bytes / PAGE > kept->hot_room ||
        syscall(SYS_ftruncate, own, kept->view_bytes - kept->file_bytes) != 0 ||
        widen_view(own) != 0) {
        image_note_doubt("its memory could not be added to the image");
        syscall(SYS_close, own);
        return -1;
    }
    move_into_file(own, kept->file_bytes);
    sort_ranges();
    for (size_t i = 0; i < kept->range_count; i++) {
        if (kept->ranges[i].offset >= kept->file_bytes) {
            pages_populate(&kept->ranges[i]);
        }
    }
    kept->program_break = (uintptr_t)sbrk(0);
    seal(own);
    syscall(SYS_close, own);
    if (mappings_learn() != 0) {
        image_note_doubt("its memory could not be added to the image");
        return -1;
    }
    return 0;
}

/* ---- the roll-back ---- */

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static _Noreturn __attribute__((noinline)) void restore(void)
{
    uint64_t began = now();
    int has_faulted = pages_have_faulted();

    kept->rolling_back = 1;
    if ((uintptr_t)sbrk(0) != kept->program_break) {
        syscall(SYS_brk, kept->program_break);
    }
    mappings_undo(has_faulted);
    pages_restore(has_faulted);
    for (size_t i = 0; i < kept->mark_count; i++) {
        syscall(SYS_madvise, kept->marks[i].from, kept->marks[i].to - kept->marks[i].from,
                MADV_DONTNEED);
    }
    if (kept->tid_at) {
        *(pid_t *)kept->tid_at = kept->owner;
    }
    memcpy((void *)kept->stack_low, kept->stack, kept->stack_high - kept->stack_low);
    kept->last_ns = now() - began;
    kept->rolling_back = 0;
    _longjmp(kept->moment, 1);
}

void image_roll_back(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0), below = kept->stack_low - MARGIN;

    if (here > below) {
        /* Our frames must lie below the stack that is written over. */
        volatile char *room = alloca(here - below);
        room[0] = 0;
        restore();
    }
    restore();
}

int image_is_rolling_back(void)
{
    return kept && kept->rolling_back;
}

/* ---- doubt ---- */

void image_note_doubt(const char *what)
{
    if (kept && !kept->doubt) {
        kept->doubt = what;
    }
}

const char *image_doubt(void)
{
    return kept ? kept->doubt : NULL;
}

int image_check(int bytes)
{
    int wrong = mappings_check();
    int seals = (int)syscall(SYS_fcntl, kept->file, F_GET_SEALS);

    if (!(seals & F_SEAL_WRITE)) {
        image_note_doubt("the image is not sealed");
        wrong++;
    }
    if (threads() != 1) {
        image_note_doubt("a thread was left behind");
        wrong++;
    }
    if (bytes && !wrong) {
        int pages = pages_compare();
        if (pages) {
            image_note_doubt("memory differs from the image after a roll-back");
        }
        wrong += pages;
    }
    return wrong;
}

void image_get_stats(image_stats *stats)
{
    *stats = (image_stats){.bytes = kept->bytes,
                           .roll_backs = kept->roll_backs,
                           .hot_pages = kept->hot_count,
                           .scans = kept->scans,
                           .strays = kept->strays,
                           .last_ns = kept->last_ns};
    for (size_t i = 0; i < kept->spare_count; i++) {
        stats->new_bytes += kept->spares[i].at.to - kept->spares[i].at.from;
    }
    for (size_t i = 0; i < kept->mapping_count; i++) {
        stats->new_bytes += kept->mappings[i].at.to - kept->mappings[i].at.from;
    }
}
