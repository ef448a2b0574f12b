/* Arrays that are made once, so that an array of each request can begin as their copy. */
#ifndef TOKAMAK_TEMPLATE_H
#define TOKAMAK_TEMPLATE_H

#include "ground/state.h"

/* An empty one with room for so many entries. */
HashTable *template_new(uint32_t room);
/* A string that no script changes and PHP never frees. It lives as long as the process, because a
 * script may leave it anywhere. */
zend_string *template_string(const zend_string *text);
/* Adds all entries of an array of strings, as copies of the kind above. */
void template_take(HashTable *template, HashTable *from);
/* Makes `array` a copy of the template. False, and nothing is done, unless the array is fresh from
 * array_init() and not larger than the template. */
bool template_fill(HashTable *array, const HashTable *template);

#endif
