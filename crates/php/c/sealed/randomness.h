/* Generators of random numbers that must not repeat after a roll-back. */
#ifndef TOKAMAK_RANDOMNESS_H
#define TOKAMAK_RANDOMNESS_H

void randomness_watch(void);
/* Why there can be no image; NULL: there can. */
const char *randomness_culprit(void);
/* What draws random numbers seeds itself anew when it is next used. */
void randomness_forget(void);
/* Of libc's generators: seeds them, if they are not. */
void randomness_seed(void);
void randomness_note_seeded(void);
void randomness_note_fork_handler(void (*prepare)(void), void (*child)(void), const void *library);

#endif
