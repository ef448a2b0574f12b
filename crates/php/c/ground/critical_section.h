/* Code of async mode that nothing may jump out of. */
#ifndef TOKAMAK_CRITICAL_SECTION_H
#define TOKAMAK_CRITICAL_SECTION_H

#include "ground/state.h"

void critical_section_begin(void);
/* Within it, after a setting was put back that may have set the limit anew. */
void critical_section_lift_limit(void);
void critical_section_end(void);
/* As the setting says, beside what was lost. */
void critical_section_limit_memory(void);
/* Also asked in signal handlers. */
bool critical_section_is_on(void);
/* A request has died of a fatal error: what it had is not freed. The worker takes no more requests,
 * and that memory does not count for those under way. */
void critical_section_note_lost(void);

#endif
