/* Objects of the boot with which no image is taken. */
#ifndef TOKAMAK_REFUSED_OBJECTS_H
#define TOKAMAK_REFUSED_OBJECTS_H

/* Which class the boot has one of, and what to do; NULL: of none. */
const char *refused_objects_refusal(void);

#endif
