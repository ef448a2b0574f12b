/* What a function of PHP is given: objects and streams that it may wait in. */
#ifndef TOKAMAK_ARGUMENTS_H
#define TOKAMAK_ARGUMENTS_H

#include "ground/compat.h"

/* The class of an extension that the object's class comes from. */
const zend_class_entry *arguments_class_of(const zend_object *object);
bool arguments_are_of_extension(const zend_function *function, const zend_object *object);
/* Its own object, or the nth that it is given (from 1) and that its extension has made. */
zend_object *arguments_object(zend_execute_data *call, uint32_t n);
/* How many of its arguments may be such. */
uint32_t arguments_objects(const zend_execute_data *call);
/* The stream (or another resource) that it is given as the nth, to do something with it. */
zend_resource *arguments_stream(zend_execute_data *call, uint32_t n);

#endif
