/* What kinds of files are behind descriptors, so that it need not be asked at each call.
 *
 * A number is asked about once, until it is closed. What closes it reports that: interpose.c stands
 * in front of all that does. libc alone closes without that what it alone has opened, and nothing
 * reads or writes these with the functions that ask here.
 */
#include <dirent.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "async/kinds.h"

enum {
    MOST = 65536, /* numbers from here on are asked about each time */
    OWN_LOCKS = 128, /* its locks by fcntl() are of the open file */
    INHERITED = 64   /* open before the loop began: other workers may have the same open file */
};

static unsigned char *kinds; /* NULL: not in use in this process */

static descriptor_kind kind_of_mode(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFSOCK:
        return KIND_SOCKET;
    case S_IFREG:
    case S_IFDIR:
    case S_IFBLK:
        return KIND_FILE;
    case 0:
        return KIND_EVENTS;
    default:
        return KIND_OTHER;
    }
}

static descriptor_kind ask(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 ? kind_of_mode(st.st_mode) : KIND_UNKNOWN;
}

void kinds_begin(void)
{
    DIR *open = kinds ? NULL : opendir("/proc/self/fd");
    const struct dirent *entry;

    kinds = kinds ? kinds : calloc(MOST, 1);
    while (open && kinds && (entry = readdir(open))) {
        const int fd = atoi(entry->d_name);
        if (fd < MOST) {
            kinds[fd] = (unsigned char)(ask(fd) | INHERITED);
        }
    }
    if (open) {
        kinds_forget(dirfd(open));
        closedir(open);
    }
}

void kinds_note(int fd, mode_t mode)
{
    if (kinds && fd >= 0 && fd < MOST) {
        kinds[fd] = (unsigned char)kind_of_mode(mode);
    }
}

descriptor_kind kinds_of(int fd)
{
    if (!kinds || fd < 0 || fd >= MOST) {
        return ask(fd);
    }
    if (kinds[fd] == KIND_UNKNOWN) {
        kinds[fd] = (unsigned char)ask(fd);
    }
    return (descriptor_kind)(kinds[fd] & ~(OWN_LOCKS | INHERITED));
}

void kinds_note_own_locks(int fd)
{
    if (kinds_of(fd) == KIND_FILE && kinds && fd < MOST && !(kinds[fd] & INHERITED)) {
        kinds[fd] |= OWN_LOCKS;
    }
}

bool kinds_has_own_locks(int fd)
{
    return kinds && fd >= 0 && fd < MOST && (kinds[fd] & OWN_LOCKS);
}

void kinds_forget(int fd)
{
    if (kinds && fd >= 0 && fd < MOST) {
        kinds[fd] = KIND_UNKNOWN;
    }
}
