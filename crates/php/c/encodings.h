/* Encodings and the language of ext/mbstring, in worker mode. */
#ifndef TOKAMAK_ENCODINGS_H
#define TOKAMAK_ENCODINGS_H

void encodings_learn(void);
void encodings_restore(void);
void encodings_forget(void);

#endif
