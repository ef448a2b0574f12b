/* Code and constants of the program and its libraries. */
#ifndef TOKAMAK_PROGRAM_MEMORY_H
#define TOKAMAK_PROGRAM_MEMORY_H

void program_memory_learn(void);
/* Whether all that was learned is where it was, and is still read-only. */
int program_memory_is_whole(void);

#endif
