/* opcache, as its users see it. */
#include <time.h>

#include "process/opcache.h"
#include "ground/state.h"
#include "process/syscall_cache.h"

/* Whether opcache waits for its users to go: its memory is full, or opcache_reset() was called. A
 * worker script uses it as long as it runs, and after opcache.force_restart_timeout opcache kills
 * who still does, with the request in his hands. So the script ends, and is run again, without the
 * cache until all have let go; asked once a second. */
int opcache_restarts(void)
{
    static time_t asked;
    struct timespec now;
    zend_function *status;
    char *restricted;
    zval no_scripts, answer, *pending;
    int restarting;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (now.tv_sec == asked || !syscall_cache_uses_opcache()) {
        return 0;
    }
    asked = now.tv_sec;
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
