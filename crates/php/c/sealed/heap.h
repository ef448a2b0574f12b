/* PHP's memory manager. */
#ifndef TOKAMAK_HEAP_H
#define TOKAMAK_HEAP_H

#include <stddef.h>

void heap_plug(void);
/* All chunks in which nothing is left. */
void heap_give_back(void);
/* Shows all of PHP's heap by chunks, free places as zeros, without huge blocks. 0, or -1:
 * PHP has another memory manager. */
int heap_visit(void (*visit)(const void **from, const void **to));
/* Of a block of PHP's heap, or of a place inside of one; 0: it is none. */
size_t heap_size_of(const void *block);

#endif
