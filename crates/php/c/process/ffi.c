/* FFI's functions, by which code in C is reached. What that code does to the process, no function
 * of ours sees. */
#include "process/ffi.h"
#include "ground/override.h"
#include "ground/state.h"

#define NOTICE(function)                                      \
    static zif_handler real_##function;                       \
    static ZEND_NAMED_FUNCTION(notice_##function)             \
    {                                                         \
        serving->changes.called_c = 1;                        \
        real_##function(INTERNAL_FUNCTION_PARAM_PASSTHRU);    \
    }

NOTICE(cdef)
NOTICE(load)
NOTICE(scope)

void ffi_watch(void)
{
    if (real_cdef) {
        return;
    }
    override_function("ffi", "cdef", &real_cdef, notice_cdef);
    override_function("ffi", "load", &real_load, notice_load);
    override_function("ffi", "scope", &real_scope, notice_scope);
}

int ffi_is_watched(void)
{
    return real_cdef != NULL;
}

int ffi_was_called(void)
{
    return serving->changes.called_c;
}
