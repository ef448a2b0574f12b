/* PHP's stack as text, of this process or another. */
#ifndef TOKAMAK_BACKTRACE_H
#define TOKAMAK_BACKTRACE_H

#include <stddef.h>

/* Before a worker takes requests: on this signal it says where it is. */
void backtrace_init_signals(int backtrace_signal);
/* The stack of what runs in this process, below a headline; needs no memory. The text lives until
 * the next one. */
size_t backtrace_of_this(const char *headline, const char **to);

#endif
