/* Compares a running process with the invariants of image.h: image_check(). */
#ifndef TOKAMAK_IMAGE_CHECK_H
#define TOKAMAK_IMAGE_CHECK_H

/* Remembers all that is mapped now as belonging to the process. -1: errno. */
int check_learn(void);

#endif
