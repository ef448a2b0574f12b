/* Encodings and the language of ext/mbstring, in worker mode. */
#ifndef TOKAMAK_ENCODINGS_H
#define TOKAMAK_ENCODINGS_H

#include <Zend/zend.h>

/* After module start-up, before any script is compiled: opcache's JIT remembers what it calls. */
void encodings_watch(void);
void encodings_learn(void);
void encodings_restore(void);
void encodings_forget(void);

/* Of the request that goes; NULL: they are the script's. */
zval *encodings_take(void);
/* Sets them so again, and frees them. */
void encodings_give(zval *values);

#endif
