/* Taking the image, and the roll-back. See image.h for the contract. */
#include <alloca.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture.h"
#include "check.h"
#include "region.h"
#include "mappings.h"
#include "pages.h"
#include "proc.h"
#include "prepare.h"

extern void *__libc_stack_end; /* where the first frame begins; from the dynamic linker */

/* Between the stack that goes back and the frames that do it. */
enum { MARGIN = 16 << 10 };

const char *image_reason(void)
{
    return region ? region->reason : "there is no persistent region";
}

static int find_code(const mapping *m, void *address)
{
    if ((uintptr_t)address >= m->at.from && (uintptr_t)address < m->at.to) {
        region->reuse_code = m->at;
        return 1;
    }
    return 0;
}

void image_reuse_for(const void *code)
{
    proc_visit_mappings(0, find_code, (void *)code);
}

/* ---- taking ---- */

static int prepare_to_take(void)
{
    int count = proc_count_threads(), failed = 0;
    char first[1];

    if (!region || region->state != OPEN) {
        return -1;
    }
    if (count < 0) {
        return capture_refuse("/proc/self/status cannot be read; is /proc in the root folder?");
    }
    /* Page maps count in pages of the kernel: on arm64 these may be larger. */
    if (sysconf(_SC_PAGESIZE) != PAGE) {
        return capture_refuse("the kernel's pages have %ld bytes; sealed mode is made for %d",
                              sysconf(_SC_PAGESIZE), PAGE);
    }
    if (count != 1) {
        return capture_refuse("%d threads run; an image can hold only one", count);
    }
    /* Libc's generator keeps its state in memory that the kernel drops: it has to exist before. */
    if (getrandom(first, sizeof(first), GRND_NONBLOCK) == -1 && errno != EAGAIN) {
        return capture_refuse("no random numbers: %s", strerror(errno));
    }
    prepare_heap();
    if (prepare_environment() != 0) {
        return capture_refuse("no memory");
    }
    prepare_rseq();
    if (region->page_map < 0) {
        return capture_refuse("/proc/self/pagemap: %s", strerror(-region->page_map));
    }
    region->file = (int)syscall(SYS_memfd_create, "tokamak-image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (region->file == -1) {
        return capture_refuse("memfd_create: %s", strerror(errno));
    }
    region->range_count = region->mark_count = 0;
    region->view_bytes = region->bytes = 0;
    if (proc_visit_mappings(1, capture_collect, &failed) != 0) {
        return capture_refuse("/proc/self/smaps: %s", strerror(errno));
    }
    if (failed) {
        return -1;
    }
    region->file_bytes = region->bytes;
    if (region->bytes / PAGE > region->dirty_room) {
        return capture_refuse("the process has %zu MB of writable memory",
                              (size_t)(region->bytes >> 20));
    }
    if (syscall(SYS_ftruncate, region->file, region->bytes) != 0) {
        return capture_refuse("the image's file: %s", strerror(errno));
    }
    region->view =
        (const char *)syscall(SYS_mmap, NULL, region->bytes, PROT_READ, MAP_PRIVATE,
                              region->file, 0);
    if ((const void *)region->view == MAP_FAILED) {
        return capture_refuse("the image's view: %s", strerror(errno));
    }
    region->stack_high = (uintptr_t)__libc_stack_end;
    region->program_break = (uintptr_t)sbrk(0);
    region->owner = getpid();
    return 0;
}

/* A frame below the one that sets the moment, so that all of that one is above it. */
static __attribute__((noinline)) int keep_stack(void)
{
    region->stack_low = (uintptr_t)__builtin_frame_address(0);
    if (region->stack_high - region->stack_low > region->stack_room) {
        return capture_refuse("%zu kB of stack are in use",
                      (size_t)(region->stack_high - region->stack_low) >> 10);
    }
    memcpy(region->stack, (void *)region->stack_low, region->stack_high - region->stack_low);
    return 0;
}

image_moment image_take(void)
{
    if (prepare_to_take() != 0) {
        return IMAGE_REFUSED;
    }
    if (_setjmp(region->moment) != 0) {
        return IMAGE_RESTORED;
    }
    if (keep_stack() != 0) {
        return IMAGE_REFUSED;
    }
    region->state = TAKEN;
    capture_move(region->file, 0);
    capture_seal(region->file);
    syscall(SYS_close, region->page_map);
    return IMAGE_TAKEN;
}

/* ---- a worker begins ---- */

/* Libc writes a thread's number into its descriptor at a fork; signalling oneself depends on it.
 * The roll-back would bring the zygote's number back, so it is found and written again each
 * time. */
static size_t find_thread_number(pid_t zygote)
{
    uintptr_t self = (uintptr_t)pthread_self();

    for (size_t i = 0; i < region->range_count; i++) {
        const image_range *r = &region->ranges[i];
        for (uintptr_t at = self; at >= r->at.from && at < r->at.to && at < self + 2304;
             at += sizeof(pid_t)) {
            pid_t before;
            memcpy(&before, region->view + r->offset + (at - r->at.from), sizeof(before));
            if (before == zygote && *(pid_t *)at == getpid()) {
                return at;
            }
        }
    }
    return 0;
}

int image_adopt(int page_map)
{
    pid_t zygote = region->owner;

    if (region->state != TAKEN || page_map < 0) {
        errno = EINVAL;
        return -1;
    }
    if (region_own() != 0) {
        return -1;
    }
    pages_begin(page_map);
    region->tid_at = find_thread_number(zygote);
    region->owner = getpid();
    if (check_learn() != 0) {
        return -1;
    }
    region->state = RUNNING;
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

    region->rolling_back = 1;
    if ((uintptr_t)sbrk(0) != region->program_break) {
        syscall(SYS_brk, region->program_break);
    }
    mappings_undo(has_faulted);
    pages_restore(has_faulted);
    for (size_t i = 0; i < region->mark_count; i++) {
        syscall(SYS_madvise, region->marks[i].from, region->marks[i].to - region->marks[i].from,
                MADV_DONTNEED);
    }
    if (region->tid_at) {
        *(pid_t *)region->tid_at = region->owner;
    }
    memcpy((void *)region->stack_low, region->stack, region->stack_high - region->stack_low);
    region->last_ns = now() - began;
    region->rolling_back = 0;
    _longjmp(region->moment, 1);
}

void image_roll_back(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0), below = region->stack_low - MARGIN;

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
    return region && region->rolling_back;
}

/* ---- taint ---- */

void image_note_taint(const char *what)
{
    if (region && !region->taint) {
        region->taint = what;
    }
}

const char *image_taint(void)
{
    return region ? region->taint : NULL;
}

void image_get_stats(image_stats *stats)
{
    *stats = (image_stats){.bytes = region->bytes,
                           .roll_backs = region->roll_backs,
                           .dirty_pages = region->dirty_count,
                           .scans = region->scans,
                           .strays = region->strays,
                           .last_ns = region->last_ns};
    for (size_t i = 0; i < region->spare_count; i++) {
        stats->new_bytes += region->spares[i].at.to - region->spares[i].at.from;
    }
    for (size_t i = 0; i < region->mapping_count; i++) {
        stats->new_bytes += region->mappings[i].at.to - region->mappings[i].at.from;
    }
}
