/* From memory to a file of the image: which ranges it has, their copy, and the file in their
 * place. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture.h"
#include "mappings.h"

int capture_refuse(const char *format, ...)
{
    va_list rest;

    va_start(rest, format);
    vsnprintf(region->reason, sizeof(region->reason), format, rest);
    va_end(rest);
    return -1;
}

static int is_marked(span at)
{
    for (size_t i = 0; i < region->mark_count; i++) {
        if (region->marks[i].from == at.from) {
            return 1;
        }
    }
    return 0;
}

int capture_collect(const mapping *m, void *failed)
{
    image_range *r;

    if (m->is_mark_of_forks && !is_marked(m->at)) {
        if (region->mark_count == MOST_MARKS) {
            *(int *)failed = capture_refuse("more than %d mappings are wiped on fork", MOST_MARKS);
            return 1;
        }
        region->marks[region->mark_count++] = m->at;
    }
    if (!m->is_private || !(m->protection & PROT_WRITE) || m->is_stack || m->is_fixed ||
        mappings_touch_image(m->at)) {
        return 0;
    }
    if (region->range_count == MOST_RANGES) {
        *(int *)failed =
            capture_refuse("the process has more than %d writable mappings", MOST_RANGES);
        return 1;
    }
    r = &region->ranges[region->range_count++];
    *r = (image_range){m->at, region->view_bytes, m->protection};
    region->view_bytes += m->at.to - m->at.from;
    region->bytes += m->at.to - m->at.from;
    return 0;
}

/* Pages that a range of anonymous memory never touched are zero, and stay holes in the file. */
static int copy_range(const image_range *r, int file, uint64_t file_begins)
{
    for (uintptr_t at = r->at.from; at < r->at.to;) {
        uint64_t entries[512];
        size_t pages = (r->at.to - at) / PAGE, some = pages < 512 ? pages : 512;
        if (syscall(SYS_pread64, region->page_map, entries, some * 8, (off_t)(at / PAGE * 8)) !=
            (long)(some * 8)) {
            return -1;
        }
        for (size_t i = 0; i < some; i++, at += PAGE) {
            long put;
            /* Without an entry: a hole, or a page of a file that was not read yet. Reading
             * shows which. */
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

/* By system calls alone. */
static _Noreturn void end(const char *text)
{
    syscall(SYS_write, 2, text, strlen(text));
    for (;;) {
        syscall(SYS_exit_group, 1);
    }
}

/* Between the copy of a range and its mapping nothing may write to it: only local variables, the
 * persistent region and system calls in here. A failure in the middle cannot be undone, so it ends
 * the process. */
void capture_move(int file, uint64_t file_begins)
{
    for (size_t i = 0; i < region->range_count; i++) {
        const image_range *r = &region->ranges[i];
        size_t len = r->at.to - r->at.from;
        if (r->offset < file_begins) {
            continue;
        }
        if (copy_range(r, file, file_begins) != 0 ||
            syscall(SYS_mmap, r->at.from, len, r->protection, MAP_PRIVATE | MAP_FIXED, file,
                    r->offset - file_begins) != (long)r->at.from) {
            end("tokamak: the memory image could not be written; is there too little memory?\n");
        }
        syscall(SYS_madvise, r->at.from, len, MADV_NOHUGEPAGE);
    }
}

void capture_seal(int file)
{
    /* EBUSY for as long as somebody holds one of its pages, such as a profiler that reads it. */
    for (int tries = 0; tries < 20; tries++) {
        const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
        if (syscall(SYS_fcntl, file, F_ADD_SEALS,
                    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0) {
            return;
        }
        if (errno != EBUSY) {
            break;
        }
        syscall(SYS_nanosleep, &pause, NULL);
    }
    end("tokamak: the memory image could not be sealed\n");
}
