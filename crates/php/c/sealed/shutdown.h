/* The end of a request in sealed mode. */
#ifndef TOKAMAK_SHUTDOWN_H
#define TOKAMAK_SHUTDOWN_H

#include <stdint.h>

void shutdown_learn_modules(void);
/* Objects and resources that are there now are the boot's. Returns the first handle of objects that
 * were not, before. */
uint32_t shutdown_draw_line(void);
/* Before the boot's streams are flushed into its files. */
void shutdown_learn_writers(void);
void shutdown_flush_streams(void);
void shutdown_request(void);

#endif
