/* The current directory. */
#ifndef TOKAMAK_DIRECTORY_H
#define TOKAMAK_DIRECTORY_H

#include <stddef.h>

/* That of the script with this path. */
void directory_enter_that_of(const char *file, size_t len);
/* Notes that the working directory was changed. */
void directory_note_change(void);
/* Whether the working directory was changed since it was last entered. */
int directory_has_moved(void);
void directory_return_to(const char *path);
/* A worker begins: its directory is not known. */
void directory_note_start(void);

#endif
