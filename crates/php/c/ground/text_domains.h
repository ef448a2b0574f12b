/* Where gettext finds a text domain and in which codeset, in classic mode. */
#ifndef TOKAMAK_TEXT_DOMAINS_H
#define TOKAMAK_TEXT_DOMAINS_H

#include "ground/state.h"

void text_domains_learn(void);
void text_domains_put_back(void);
/* After each setlocale(), whose result it returns. */
char *text_domains_follow(char *result);

#endif
