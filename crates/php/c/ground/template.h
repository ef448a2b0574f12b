/* Arrays that are made once, so that an array of each request can begin as their copy. */
#ifndef TOKAMAK_TEMPLATE_H
#define TOKAMAK_TEMPLATE_H

#include "ground/state.h"

/* Makes an empty template with room for so many entries. */
HashTable *template_new(uint32_t room);
/* Makes a copy of a string that no script changes and PHP never frees. It lives as long as the
 * process, because a script may keep it anywhere. */
zend_string *template_string(const zend_string *text);
/* Adds all entries of an array of strings, each as a copy by template_string(). */
void template_take(HashTable *template, HashTable *from);
/* Makes `array` a copy of the template. False, and nothing is done, unless the array is fresh from
 * array_init() and not larger than the template. */
bool template_fill(HashTable *array, const HashTable *template);

#endif
