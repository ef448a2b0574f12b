/* What the kernel says in /proc of this process. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proc.h"
#include "region.h"

int proc_count_threads(void)
{
    char *at = NULL;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd == -1 ? -1 : read(fd, region->scratch, SCRATCH - 1);

    syscall(SYS_close, fd);
    if (got > 0) {
        region->scratch[got] = 0;
        at = strstr(region->scratch, "\nThreads:");
    }
    return at ? atoi(at + 9) : -1;
}

static int parse(char *line, mapping *m)
{
    char *at = line;

    memset(m, 0, sizeof(*m));
    m->at.from = strtoul(at, &at, 16);
    if (*at++ != '-') {
        return 0;
    }
    m->at.to = strtoul(at, &at, 16);
    if (*at++ != ' ' || m->at.to <= m->at.from || strlen(at) < 5) {
        return 0;
    }
    m->protection = (at[0] == 'r' ? PROT_READ : 0) | (at[1] == 'w' ? PROT_WRITE : 0) |
                    (at[2] == 'x' ? PROT_EXEC : 0);
    m->is_private = at[3] == 'p';
    at += 5;
    m->offset = strtoul(at, &at, 16);
    at += strspn(at, " ");
    at += strcspn(at, " "); /* device */
    m->inode = strtoul(at, &at, 10);
    at += strspn(at, " ");
    m->is_file = m->inode != 0;
    m->is_stack = strncmp(at, "[stack", 6) == 0;
    m->is_fixed = strncmp(at, "[v", 2) == 0; /* [vdso], [vvar], [vvar_vclock], [vsyscall] */
    return 1;
}

/* "VmFlags: rd wr mr … dp": wf, wiped in a fork's child; dp, dropped at the kernel's pleasure. */
static int is_wiped(const char *line)
{
    return strncmp(line, "VmFlags:", 8) == 0 && (strstr(line, " wf") || strstr(line, " dp"));
}

int proc_visit_mappings(int flags, int (*each)(const mapping *, void *), void *context)
{
    char *text = region->scratch, *line, *end;
    size_t held = 0;
    mapping one, next;
    int have = 0, stopped = 0, is_line_of_mapping;
    ssize_t got;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, flags ? "/proc/self/smaps" : "/proc/self/maps",
                          O_RDONLY | O_CLOEXEC);

    if (fd == -1) {
        return -1;
    }
    while (!stopped && (got = read(fd, text + held, SCRATCH - 1 - held)) > 0) {
        held += (size_t)got;
        for (line = text; !stopped && (end = memchr(line, '\n', held - (size_t)(line - text)));
             line = end + 1) {
            *end = 0;
            is_line_of_mapping = line[0] >= '0' && line[0] <= 'f' && parse(line, &next);
            if (is_line_of_mapping) {
                stopped = have && each(&one, context);
                one = next;
                have = 1;
            } else if (have && is_wiped(line)) {
                one.is_fixed = 1;
                one.is_mark_of_forks = !strstr(line, " dp");
            }
        }
        held -= (size_t)(line - text);
        memmove(text, line, held);
    }
    if (have && !stopped) {
        each(&one, context);
    }
    syscall(SYS_close, fd);
    return 0;
}
