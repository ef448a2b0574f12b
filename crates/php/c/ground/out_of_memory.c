/* The end of a request that has reached its memory limit.
 *
 * Engines that raise this error late (see compat.h) then go back call by call, and destroy what
 * each call had. PHP destroys nested values by recursion, and arrays in arrays that fill the memory
 * limit are deeper than any stack: the process would die, with its 500 unsent. So once the error is
 * logged the request ends by a jump, as after other fatal errors (max_execution_time raises its own
 * in the same places, between two opcodes). What the calls had goes with the request's memory.
 */
#include "ground/out_of_memory.h"
#ifdef ZEND_HAS_OOM
#include "ground/critical_section.h"
#include "ground/state.h"

static bool is_limit_raised;

void out_of_memory_raise(void (*raise)(void))
{
    const bool is_new = EG(delayed_oom).state == ZEND_OOM_STATE_PENDING;

    raise();
    if (!is_new) {
        return;
    }
    COMPAT_END_OUT_OF_MEMORY();
    zend_clear_exception(); /* the one by which it would go back */
    /* Nothing is freed so far. Shutdown functions get as much again, and so do others that the
     * worker has. */
    critical_section_note_lost();
    critical_section_limit_memory();
    is_limit_raised = true;
    zend_bailout();
}

void out_of_memory_reset(void)
{
    if (is_limit_raised) {
        is_limit_raised = false;
        zend_set_memory_limit(PG(memory_limit));
    }
}
#else
void out_of_memory_reset(void)
{
}
#endif
