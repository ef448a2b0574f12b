/* Fatal errors of requests of async mode, in the log. */
#ifndef TOKAMAK_FATAL_ERRORS_H
#define TOKAMAK_FATAL_ERRORS_H

/* After module start-up. */
void fatal_errors_watch(void);

#endif
