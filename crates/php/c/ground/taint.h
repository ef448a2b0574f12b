/* Whether this process can be used for another request. */
#ifndef TOKAMAK_TAINT_H
#define TOKAMAK_TAINT_H

/* A request left something that cannot be undone: the process ends after it. The reason is for the
 * log; the first one counts. */
void taint_note(const char *reason);
/* NULL: it can be used. */
const char *taint_reason(void);

#endif
