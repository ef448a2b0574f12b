/* What extensions and their libraries remember, in classic mode. */
#ifndef TOKAMAK_LIBRARIES_H
#define TOKAMAK_LIBRARIES_H

#include "state.h"

void libraries_learn(void);
void libraries_begin(void);
void libraries_put_back(void);
void libraries_note_locale(const char *wanted);
/* Ours is called in the place of a function of PHP, if there is one of that name. class: NULL, or
 * in lower case. */
void libraries_stand_before(const char *class, const char *name, zif_handler *real,
                            zif_handler ours);

#endif
