/* Making a process such that it can be taken: where its memory comes from, and what the kernel or a
 * request would change in places that no roll-back reaches. */
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "prepare.h"
#include "image.h"

/* Free memory at the end of the heap, so that a request seldom moves the break. */
enum { SLACK = 256 << 10 };

void image_prepare(void)
{
    /* All from the break: libc maps and unmaps big blocks behind our back, and the break can be put
     * back. It is never lowered: that would unmap a part of the image. */
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, SLACK);
}

/* The kernel writes the processor's number into the thread's descriptor at will, which a roll-back
 * would turn back. It is not needed: libc asks the kernel instead. From glibc 2.35 on. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

void prepare_rseq(void)
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
int prepare_environment(void)
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

void prepare_heap(void)
{
    void *volatile slack; /* volatile: a compiler may leave out a malloc() that is only freed */

    plug_heap();
    slack = malloc(SLACK);
    free(slack);
}
