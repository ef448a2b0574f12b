/* Encodings and the language of ext/mbstring, in worker mode. */
#ifndef TOKAMAK_ENCODINGS_H
#define TOKAMAK_ENCODINGS_H

#include <Zend/zend.h>

/* After module start-up, before any script is compiled: opcache's JIT remembers what it calls. */
void encodings_watch(void);
void encodings_learn(void);
void encodings_restore(void);
void encodings_forget(void);

/* For async mode, where the rest is memory (own_extensions.c): the encoding of regular expressions
 * of the request that goes; NULL: nothing was changed. */
zval *encodings_take(void);
/* Sets it so again, and frees it. */
void encodings_give(zval *of_regex);

#endif
