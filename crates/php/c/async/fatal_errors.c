/* Fatal errors in async mode: they end a request, and others of the worker go on.
 *
 * Before 8.5 PHP logs only the line in which a fatal error happened. In async mode it ends a worker
 * with other requests, so the stack of the request's Fiber is logged before PHP's line. The line of
 * an uncaught exception has its stack already.
 *
 * After a fatal error PHP calls no destructor any more: it marks all objects. Here most are those
 * of other requests, whose destructors commit and close what these have open. So objects are marked
 * when the other requests have ended; those that the jump has left behind have no owner, and live
 * until then.
 */
#include <Zend/zend_observer.h>

#include "async/fatal_errors.h"
#include "async/fibers.h"
#include "ground/backtrace.h"
#include "ground/compat.h"
#include "ground/libc.h"

enum { FATAL = E_ERROR | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR };

/* Whether the application has an error handler for errors of this type. */
static bool is_for_handler(int type)
{
    return Z_TYPE(EG(user_error_handler)) != IS_UNDEF &&
           (type & (E_USER_ERROR | E_RECOVERABLE_ERROR)) &&
           (EG(user_error_handler_error_reporting) & type);
}

static void on_error(int type, zend_string *file, uint32_t line, zend_string *message)
{
    static const char uncaught[] = "Uncaught ";
    const char *stack;
    size_t len;

    (void)file;
    (void)line;
    if (!(type & FATAL) || !(EG(error_reporting) & type) || !PG(log_errors) ||
        COMPAT_SHOWS_STACKS() || !fibers_in_request() || is_for_handler(type) ||
        strncmp(ZSTR_VAL(message), uncaught, sizeof(uncaught) - 1) == 0) {
        return;
    }
    len = backtrace_of_this("the next line is of a fatal error, which happened at", &stack);
    rust_log(SHIM_ERROR, stack, len);
}

static bool is_marking_due;

void fatal_errors_mark_destructed(zend_objects_store *objects)
{
    if (fibers_in_request()) {
        is_marking_due = true;
    } else {
        LIBC(zend_objects_store_mark_destructed)(objects);
    }
}

void fatal_errors_end(void)
{
    if (is_marking_due) {
        is_marking_due = false;
        LIBC(zend_objects_store_mark_destructed)(&EG(objects_store));
    }
}

void fatal_errors_watch(void)
{
    zend_observer_error_register(on_error);
}
