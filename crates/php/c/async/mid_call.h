/* What a call of PHP keeps in the engine while it calls back, or waits. */
#ifndef TOKAMAK_MID_CALL_H
#define TOKAMAK_MID_CALL_H

#include "ground/state.h"

/* Of one context, while others run. */
typedef struct {
    zend_error_handling_t handling;
    zend_class_entry *exception_class;
    __typeof__(EG(fake_scope)) fake_scope; /* of a constant class since 8.5 */
    zend_object *exception, *previous_exception;
    zend_fcall_info compare;
    zend_fcall_info_cache compare_cache;
    unsigned serialize_lock;
    __typeof__(BG(serialize)) serialize;
    __typeof__(BG(unserialize)) unserialize;
    bool in_include, in_error_log;
    const char *stream_filename;
} mid_call;

/* Puts it aside: others begin without. */
void mid_call_leave(mid_call *call);
void mid_call_enter(const mid_call *call);

#endif
