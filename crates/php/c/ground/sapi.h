/* The SAPI module: what PHP asks of a server. */
#ifndef TOKAMAK_SAPI_H
#define TOKAMAK_SAPI_H

#include "ground/state.h"

extern sapi_module_struct shim_sapi;

void sapi_take_request(const shim_request *request);
void sapi_forget_request(void);
void sapi_end_response(void);
void sapi_slurp_body(void);
void sapi_leave_copy(void);
/* Adds a field that follows the body of the response; name and value are sound. False: it cannot
 * follow any more, the request came over FastCGI, which has none, or there are too many. May jump,
 * as any output. */
bool sapi_add_trailer(const zend_string *name, const zend_string *value);

#endif
