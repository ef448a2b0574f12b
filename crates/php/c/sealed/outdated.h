/* Whether the image is still the application: shim_outdated(). */
#ifndef TOKAMAK_OUTDATED_H
#define TOKAMAK_OUTDATED_H

#include "sealed/dependencies.h"

typedef struct {
    char *path;
    file_mark mark;
    dependence kind;
    bool is_directory;
    bool is_own;     /* the boot itself has written it */
    bool is_setting; /* of PHP: code is right without it */
} known_file;

/* What was included, what the boot has named, what it has read, missed and listed; PHP's own
 * settings. The boot is over. */
void outdated_learn_files(void);
/* The same in a process that boots for one request; nothing in others. */
void outdated_note_booted(void);
void outdated_visit(void (*visit)(const known_file *file, void *with), void *with);
/* One that another process has learnt. */
void outdated_add(const known_file *file);
/* There is no code in opcache's memory that would have to stay. */
void outdated_without_cache(void);

#endif
