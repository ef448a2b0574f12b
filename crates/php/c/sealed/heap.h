/* PHP's memory manager. */
#ifndef TOKAMAK_HEAP_H
#define TOKAMAK_HEAP_H

void heap_plug(void);
/* All chunks in which nothing is left. */
void heap_give_back(void);

#endif
