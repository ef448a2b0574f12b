/* The event loops of PHP libraries: each request of async mode has its own. */
#ifndef TOKAMAK_OWN_LOOPS_H
#define TOKAMAK_OWN_LOOPS_H

#include "ground/state.h"

enum { OWN_LOOPS = 4 };

/* Those of one request while another one runs; while it runs, those of the script. Undefined: not
 * made so far. */
typedef zval own_loops[OWN_LOOPS];

/* In the script, when its loop begins and when it has ended. */
void own_loops_begin(void);
void own_loops_forget(void);
/* Classes may have been declared. */
void own_loops_learn(void);
/* The autoloader has declared a class. */
void own_loops_note_class(const zend_string *lower_name);
/* A request begins, goes, or comes back. */
void own_loops_exchange(own_loops kept);
/* It has ended: its loops are freed. */
void own_loops_end(own_loops kept);

#endif
