/* From memory to a file of the image. */
#ifndef TOKAMAK_IMAGE_CAPTURE_H
#define TOKAMAK_IMAGE_CAPTURE_H

#include "proc.h"

/* Notes why there is no image, for image_reason(); -1. */
__attribute__((format(printf, 1, 2))) int capture_refuse(const char *format, ...);
/* For proc_visit_mappings(), with flags: makes a range of a mapping that belongs into the image and
 * is in no range. *failed: not 0 on failure, whose reason is noted. */
int capture_collect(const mapping *m, void *failed);
/* Copies the ranges that begin at file_begins of the view, or behind, to the file, and maps it in
 * their place. */
void capture_move(int file, uint64_t file_begins);
/* From here on nobody can change the file. Waits some seconds for who holds a page of it; ends the
 * process if it cannot be. */
void capture_seal(int file);

#endif
