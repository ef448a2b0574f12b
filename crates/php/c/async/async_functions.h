/* The functions of async mode: Tokamak\async() and others. */
#ifndef TOKAMAK_ASYNC_FUNCTIONS_H
#define TOKAMAK_ASYNC_FUNCTIONS_H

/* Adds them to PHP; called at module start-up. */
void async_functions_install(void);

#endif
