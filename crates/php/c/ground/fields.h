/* The fields of a response. */
#ifndef TOKAMAK_FIELDS_H
#define TOKAMAK_FIELDS_H

#include "ground/state.h"

/* Whether a text may name a field (RFC 9110 section 5.1). */
bool fields_is_name(const zend_string *text);
/* Room for so many pairs; the same memory each time. NULL: there is none. */
shim_pair *fields_pairs(size_t wanted);
/* Name and value of a header line; false: it is none. */
int fields_split(const sapi_header_struct *header, shim_pair *to);

#endif
