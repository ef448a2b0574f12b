/* Tokamak\async() and what goes with it. */
#ifndef TOKAMAK_ASYNC_FUNCTIONS_H
#define TOKAMAK_ASYNC_FUNCTIONS_H

/* At module start-up. */
void async_functions_install(void);

#endif
