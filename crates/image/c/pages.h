/* Which pages differ from the image, and their way back. */
#ifndef TOKAMAK_IMAGE_PAGES_H
#define TOKAMAK_IMAGE_PAGES_H

#include <sys/mman.h>

#include "region.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14; without it the first requests fault the pages in */
#endif

/* Page faults of this process, but for known ones. */
long pages_faults(void);
/* Whether a page has come to this process since the last roll-back. */
int pages_have_faulted(void);
/* Makes the page tables, so that a request's first reads are no faults. */
void pages_begin(int page_map);
void pages_restore(int has_faulted);
void pages_populate(const image_range *r);
/* Takes the pages that differ from the image out of the set of dirty pages, upwards. */
void pages_take_changed(void (*take)(uintptr_t at));
/* Invariant 3, byte by byte; returns how many pages differ from the image. */
int pages_compare(void);

#endif
