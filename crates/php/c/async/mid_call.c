/* What a call of PHP keeps in the engine while it calls back, or waits.
 *
 * The comparison of a usort(), the warnings that a constructor turns into exceptions, the state of
 * a serialize(): the engine expects that all code that runs until the call returns was called by
 * it. A coroutine of the same request was not. Requests keep this state apart by own_memory.c.
 */
#include "async/mid_call.h"

void mid_call_leave(mid_call *call)
{
    *call = (mid_call){.handling = EG(error_handling),
                       .exception_class = EG(exception_class),
                       .fake_scope = EG(fake_scope),
                       .exception = EG(exception),
                       .previous_exception = EG(prev_exception),
                       .compare = BG(user_compare_fci),
                       .compare_cache = BG(user_compare_fci_cache),
                       .serialize_lock = BG(serialize_lock),
                       .serialize = BG(serialize),
                       .unserialize = BG(unserialize),
                       .in_include = PG(in_user_include),
                       .in_error_log = PG(in_error_log),
                       .stream_filename = FG(user_stream_current_filename)};
    mid_call_enter(&(const mid_call){.handling = EH_NORMAL});
}

void mid_call_enter(const mid_call *call)
{
    EG(error_handling) = call->handling;
    EG(exception_class) = call->exception_class;
    EG(fake_scope) = call->fake_scope;
    EG(exception) = call->exception;
    EG(prev_exception) = call->previous_exception;
    BG(user_compare_fci) = call->compare;
    BG(user_compare_fci_cache) = call->compare_cache;
    BG(serialize_lock) = call->serialize_lock;
    BG(serialize) = call->serialize;
    BG(unserialize) = call->unserialize;
    PG(in_user_include) = call->in_include;
    PG(in_error_log) = call->in_error_log;
    FG(user_stream_current_filename) = call->stream_filename;
}
