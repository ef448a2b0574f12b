/* Spare memory: what one request mapped, for the next one. */
#ifndef TOKAMAK_IMAGE_SPARE_H
#define TOKAMAK_IMAGE_SPARE_H

#include "region.h"

/* Of a mapping that its request gives back (is_free) or leaves. 0: it is not of the kind, or there
 * is no room. */
int spare_keep(const new_mapping *m, int is_free);
/* NULL: nothing fits. */
void *spare_take(size_t len, int protection, int is_of_allocator);
/* 0: that is not, as a whole, what was handed out. */
int spare_give_back(span at);
/* Gives up one that overlaps: it is treated otherwise than whole. 0: none does. */
int spare_release(span at, span *released);
int spare_begins_at(uintptr_t at);
/* At a roll-back: all are free from then on. */
void spare_clear(int has_faulted);
/* Forgets all, and unmaps those that are free. */
void spare_drop(void);

#endif
