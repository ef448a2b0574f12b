/* The memory behind state.h. Pointer and state are set from the first instruction on: functions of
 * libc are called, and changes noted, before main() is. Side by side, because each page that a
 * sealed request writes to is copied back. */
#include "ground/state.h"

shim_state shim;

static request_state only_request;
request_state *serving = &only_request;
request_state *oldest_request;
const zend_execute_data *frames_left;
