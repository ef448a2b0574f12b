/* The request's headers. */
#ifndef TOKAMAK_HEADERS_H
#define TOKAMAK_HEADERS_H

#include "ground/state.h"

/* Whether scripts see a header of this name. */
int headers_is_passed(const shim_text *name);
/* The header's value with those of its later namesakes; NULL: an earlier one has it
 * already. */
zend_string *headers_joined(const shim_request *request, size_t n);
/* HTTP_X_Y for X-Y. */
zend_string *headers_key(const shim_text *name);
/* getallheaders() */
void headers_list(zval *array);
char *headers_cookies(void);

#endif
