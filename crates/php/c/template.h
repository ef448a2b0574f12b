/* Arrays that lie ready, for the array of a request to begin as their copy. */
#ifndef TOKAMAK_TEMPLATE_H
#define TOKAMAK_TEMPLATE_H

#include "state.h"

/* Room for so many entries. */
HashTable *template_new(uint32_t room);
/* A string that no script changes and PHP never frees. It lives as long as the process, because a
 * script may leave it anywhere. */
zend_string *template_string(const zend_string *text);
/* Adds all entries of an array of strings, as copies of the kind above. */
void template_take(HashTable *template, HashTable *from);
/* Makes an array that was only initialized a copy. False: it is none such, and stays empty. */
bool template_fill(HashTable *array, const HashTable *template);

#endif
