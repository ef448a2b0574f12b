/* The current directory.
 *
 * PHP changes to the script's directory and back at each request. We stay there, and change again
 * only if the directory is another one, if the script has changed it, or after a second, because
 * the name may lead to another directory by then (a deployment that swaps a symlink).
 */
#include <limits.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "process/directory.h"
#include "ground/mode.h"
#include "ground/state.h"
#include "process/process_state.h"

static char directory[PATH_MAX];
static size_t directory_len;
static time_t directory_at;
static int moved = 1;

void directory_note_change(void)
{
    moved = 1;
    process_state_note_directory();
}

int directory_has_moved(void)
{
    return moved;
}

void directory_return_to(const char *path)
{
    if (syscall(SYS_chdir, path) == 0) {
        moved = 0;
    }
}

void directory_enter_that_of(const char *file, size_t len)
{
    struct timespec now;

    while (len > 1 && file[len - 1] != '/') {
        len--;
    }
    if (len == 0 || len >= sizeof(directory)) {
        return;
    }
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    /* An image is outdated by a deployment, so its directory needs no second look. */
    if (!moved && len == directory_len && (now.tv_sec == directory_at || shim.mode->keeps_code) &&
        memcmp(file, directory, len) == 0) {
        return;
    }
    memcpy(directory, file, len);
    directory[len] = 0;
    directory_len = len;
    directory_at = now.tv_sec;
    process_state_note_directory();
    moved = syscall(SYS_chdir, directory) != 0;
}

void directory_note_start(void)
{
    moved = 1;
}
