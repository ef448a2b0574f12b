/* Logs the stack of fatal errors in async mode.
 *
 * PHP logs only the line in which a fatal error happened. In async mode it ends a worker with other
 * requests, so the stack of the request's Fiber is logged before PHP's line. The line of an
 * uncaught exception has its stack already.
 */
#include <Zend/zend_observer.h>

#include "async/fatal_errors.h"
#include "async/fibers.h"
#include "ground/backtrace.h"

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
        !fibers_in_request() || is_for_handler(type) ||
        strncmp(ZSTR_VAL(message), uncaught, sizeof(uncaught) - 1) == 0) {
        return;
    }
    len = backtrace_of_this("the next line is of a fatal error, which happened at", &stack);
    rust_log(SHIM_ERROR, stack, len);
}

void fatal_errors_watch(void)
{
    zend_observer_error_register(on_error);
}
