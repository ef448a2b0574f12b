/* Functions by which scripts publish in the hub of their site. */
#ifndef TOKAMAK_PUBLISH_H
#define TOKAMAK_PUBLISH_H

#include "php.h"

ZEND_FUNCTION(mercure_publish);
ZEND_FUNCTION(tokamak_publish);

#endif
