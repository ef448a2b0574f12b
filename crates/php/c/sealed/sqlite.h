/* SQLite databases of the boot: those among the objects from this handle on. */
#ifndef TOKAMAK_SQLITE_H
#define TOKAMAK_SQLITE_H

#include <stdint.h>

void sqlite_learn(uint32_t first);
void sqlite_roll_back(void);

#endif
