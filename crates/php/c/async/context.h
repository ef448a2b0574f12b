/* Tokamak\Context: what a request knows of itself. */
#ifndef TOKAMAK_CONTEXT_H
#define TOKAMAK_CONTEXT_H

/* At module start-up. */
void context_install(void);
/* The request whose turn it is ends: its values go. Runs destructors. */
void context_forget(void);

#endif
