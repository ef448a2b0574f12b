/* Whether the image is still the application: shim_outdated(). */
#ifndef TOKAMAK_OUTDATED_H
#define TOKAMAK_OUTDATED_H

/* Those that were included, and those that the boot has named. */
void outdated_learn_files(void);

#endif
