/* Where workers are: stacks, read out of their memory. */
#ifndef TOKAMAK_SHIM_STACKS_H
#define TOKAMAK_SHIM_STACKS_H

#include <stddef.h>
#include <stdint.h>

/* In the zygote: where a worker is, as text for the error log: the name of its request in a line
 * (empty: it has none), then one for each call, the innermost first. Of the request with this slot
 * in async mode, or of what runs (SHIM_NO_SLOT). The memory is the worker's /proc/self/mem, or -1.
 * 0 bytes: it cannot be read. The text lives until the next one. */
size_t shim_stack(int pid, int memory, uint32_t slot, const char **text);
/* Whether a process, which is stopped, is in memory that it shares with others (APCu's, opcache's):
 * extensions let PHP put signals off as long as they hold a lock of such memory, or wait for one.
 * 0 if that cannot be known. */
int shim_is_in_locks(int pid, int memory);
/* Whether what such a process does there is APCu's own work, and not that of a script's function
 * which APCu has called. */
int shim_waits_in_apcu(int pid, int memory);
/* Has a worker whose memory cannot be read write that to its standard error, on that signal. */
void shim_backtrace(int pid, uint32_t slot, int signal_number);
/* For the slow log of a pool of php-fpm: the script's file in a line, then one for each call, the
 * innermost first, with address, function, file and line number between tabs. 0 bytes: the worker's
 * memory cannot be read. */
size_t shim_trace(int pid, int memory, const char **text);
/* For a profile, in a process that the zygote has forked: the stacks of a worker now, of the
 * request that runs and, in async mode, of those that wait. Each is a line with one of these
 * letters and the request's URI, then a line for each call, the innermost first, with name, file
 * and first line number between tabs (main scripts have no name), then an empty line. 0: the memory
 * cannot be read. The text lives until the next one. */
enum { SHIM_SAMPLE_RUNS = 'R', SHIM_SAMPLE_WAITS = 'W', SHIM_SAMPLE_TORN = 'T' };
int shim_sample(int pid, int memory, const char **text, size_t *len);

#endif
