/* Fatal errors of requests of async mode, in the log.
 *
 * PHP says of a fatal error only the line in which it happened. Here such an error ends a worker
 * that has other requests, so the stack of the request's Fiber is worth a line, before the one of
 * PHP. An uncaught exception has its stack in its own line.
 */
#include <Zend/zend_observer.h>

#include "async/fatal_errors.h"
#include "async/fibers.h"
#include "ground/backtrace.h"

enum { FATAL = E_ERROR | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR };

/* Whether a function of the application decides what becomes of it. */
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
