/* Whether the image is still the application: shim_outdated(). */
#ifndef TOKAMAK_OUTDATED_H
#define TOKAMAK_OUTDATED_H

/* What was included, what the boot has named, what it has read, missed and listed; PHP's own
 * settings. The boot is over. */
void outdated_learn_files(void);
/* The same in a process that boots for one request; nothing in others. */
void outdated_note_booted(void);

#endif
