/* PHP's realpath cache in a process that is rolled back. */
#ifndef TOKAMAK_PATHS_H
#define TOKAMAK_PATHS_H

#include <stddef.h>

/* What it needs of the persistent region. */
size_t paths_size(void);
void paths_begin(void *memory);
/* At the end of each request until paths are learned. */
void paths_note(void);
/* Looks up what most requests have looked up, to stay so in the image. Returns how many. */
int paths_learn(void);
/* Whether it is time to look whether what was learned still leads where it led. */
int paths_are_due(void);
/* Looks. */
int paths_hold(void);
/* Before a request: what is due is not believed. */
void paths_forget_due(void);

#endif
