/* opcache's locks, which are answered for, and its restarts.
 *
 * opcache locks byte 1 of its lock file (shared) while a request uses the cache and byte 0
 * (exclusive) while a process writes to it. A restart of the cache waits until byte 1 is free, and
 * after opcache.force_restart_timeout seconds it kills the processes that still hold it.
 *
 * We keep byte 1 when the request ends, and give it back for good
 *  - when this process wants byte 0 while its request does not use the cache: that is what it does
 *    first in every request that begins while a restart is pending, so a pending restart waits one
 *    request longer at most;
 *  - when the worker has been idle for two seconds.
 */
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "process/opcache.h"
#include "ground/libc.h"
#include "ground/mode.h"
#include "ground/state.h"
#include "process/time_limit.h"

static int lock_file = -1;
static int holds_use, wants_use, holds_write;

int opcache_is_lock_file(int fd)
{
    char link[32], target[128];
    ssize_t len;

    if (lock_file != -1) {
        return fd == lock_file;
    }
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, target, sizeof(target) - 1);
    if (len <= 0) {
        return 0;
    }
    target[len] = 0;
    if (!strstr(target, "opcache_lock") && !strstr(target, "/.ZendSem.")) {
        return 0;
    }
    lock_file = fd;
    return 1;
}

static int unlock(descriptor_call real, off_t from, off_t len)
{
    struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = from, .l_len = len};
    return real(lock_file, F_SETLK, &all);
}

static int opcache_lock(descriptor_call real, int command, struct flock *lock)
{
    int result;
    int all = lock->l_start == 0 && lock->l_len == 0;
    int use = lock->l_start == 1 && lock->l_len == 1;

    if (command == F_SETLK && use && lock->l_type == F_RDLCK) {
        if (wants_use) {
            return 0; /* every sealed request; writing nothing leaves the page as it is */
        }
        result = holds_use ? 0 : real(lock_file, command, lock);
        wants_use = holds_use = result == 0;
        return result;
    }
    if (command == F_SETLK && lock->l_type == F_UNLCK && (all || use)) {
        wants_use = shim.mode->keeps_code; /* an image uses the cache for as long as it lives */
        if (all && holds_write) {
            holds_write = 0;
            return unlock(real, 0, 1);
        }
        return 0;
    }
    if (command == F_SETLKW && lock->l_type == F_WRLCK) {
        if (holds_use && !wants_use) {
            holds_use = 0;
            unlock(real, 1, 1);
        }
        holds_write = 1;
    } else if (command == F_SETLK && lock->l_type == F_UNLCK && lock->l_start == 0) {
        holds_write = 0;
    }
    return real(lock_file, command, lock);
}

/* Byte 0, byte 1 or all: cheap to see, so that a database's locks on its own files cost nothing
 * more. */
static int is_of_opcache(const struct flock *lock)
{
    return lock->l_whence == SEEK_SET && (lock->l_start == 0 || lock->l_start == 1) &&
           (lock->l_len == 1 || (lock->l_start == 0 && lock->l_len == 0));
}

bool opcache_answers_fcntl(descriptor_call real, int fd, int command, void *argument,
                                 int *result)
{
    if ((command != F_SETLK && command != F_SETLKW) || !time_limit_is_kept() ||
        !is_of_opcache(argument) || !opcache_is_lock_file(fd)) {
        return false;
    }
    *result = opcache_lock(real, command, argument);
    return true;
}

int opcache_is_used(void)
{
    return wants_use;
}

static time_t idle_since; /* 0: not idle */

/* Before each sleep; a sleep may be short, since a wake-up may be meant for another worker. */
void opcache_note_idle(void)
{
    struct timespec now;

    if (!holds_use || wants_use || shim.mode->keeps_code) {
        return;
    }
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (idle_since == 0) {
        idle_since = now.tv_sec;
    } else if (now.tv_sec - idle_since >= 2) {
        holds_use = 0;
        unlock(LIBC(fcntl), 1, 1);
    }
}

void opcache_note_request(void)
{
    if (idle_since != 0) {
        idle_since = 0;
    }
}

void opcache_forget_locks(void)
{
    holds_use = wants_use = holds_write = 0;
}

void opcache_seal(void)
{
    struct flock use = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1};

    for (int fd = 0; fd < 64 && lock_file == -1; fd++) {
        opcache_is_lock_file(fd);
    }
    if (lock_file != -1 && !holds_use && LIBC(fcntl)(lock_file, F_SETLK, &use) == 0) {
        holds_use = wants_use = 1;
    }
}

/* Whether opcache waits for its users to go: its memory is full, or opcache_reset() was called. A
 * worker script uses it as long as it runs, and after opcache.force_restart_timeout opcache kills
 * who still does, with the request in his hands. So the script ends, and is run again, without the
 * cache until all have let go; asked once a second. */
int opcache_restarts(void)
{
    static time_t last_check;
    struct timespec now;
    zend_function *status;
    char *restricted;
    zval no_scripts, answer, *pending;
    int restarting;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (now.tv_sec == last_check || !opcache_is_used()) {
        return 0;
    }
    last_check = now.tv_sec;
    status = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("opcache_get_status"));
    restricted = zend_ini_string("opcache.restrict_api", sizeof("opcache.restrict_api") - 1, 0);
    if (!status || (restricted && *restricted)) {
        return 0;
    }
    ZVAL_FALSE(&no_scripts);
    ZVAL_UNDEF(&answer);
    zend_call_known_function(status, NULL, NULL, &answer, 1, &no_scripts, NULL);
    pending = Z_TYPE(answer) == IS_ARRAY
                  ? zend_hash_str_find(Z_ARR(answer), ZEND_STRL("restart_pending"))
                  : NULL;
    restarting = pending && zend_is_true(pending);
    zval_ptr_dtor(&answer);
    return restarting;
}
