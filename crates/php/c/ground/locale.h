/* The locale, which libraries change behind PHP's back. */
#ifndef TOKAMAK_LOCALE_H
#define TOKAMAK_LOCALE_H

void locale_learn(void);
/* setlocale() is called. */
void locale_note(const char *wanted);
void locale_put_back(void);

#endif
