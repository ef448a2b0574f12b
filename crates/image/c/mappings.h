/* What requests map and unmap. */
#ifndef TOKAMAK_IMAGE_MAPPINGS_H
#define TOKAMAK_IMAGE_MAPPINGS_H

#include "region.h"

/* Notices forks from now on; 0, or an error number. */
int mappings_watch(void);
/* Takes away what a request mapped, or keeps it for the next one. */
void mappings_undo(int has_faulted);
/* Unmaps the spare memory that is not in use; the rest of it, and what a request mapped, are
 * forgotten: they belong to the process. */
void mappings_adopt(void);
int mappings_touch_image(span s);

#endif
