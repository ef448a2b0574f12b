/* Stands before functions of PHP. */
#ifndef TOKAMAK_OVERRIDE_H
#define TOKAMAK_OVERRIDE_H

#include "ground/compat.h"

/* The function of this name; NULL: PHP is without it. */
zend_function *override_find(const char *class, const char *name);
/* Ours is called in the place of a function of PHP, if there is one of that name. class: NULL, or
 * in lower case. */
void override_function(const char *class, const char *name, zif_handler *real, zif_handler ours);

#endif
