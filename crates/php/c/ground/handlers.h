/* Error and exception handlers, in worker mode. */
#ifndef TOKAMAK_HANDLERS_H
#define TOKAMAK_HANDLERS_H

void handlers_learn(void);
void handlers_restore(void);
void handlers_forget(void);

#endif
