/* The server's error log. */
#ifndef TOKAMAK_SHIM_LOG_H
#define TOKAMAK_SHIM_LOG_H

#include <stddef.h>
#include <stdint.h>

typedef enum { SHIM_INFO, SHIM_WARN, SHIM_ERROR, SHIM_OUTPUT, SHIM_DEBUG } shim_level;

/* One line to the server's error log. */
void rust_log(shim_level level, const char *at, size_t len);

#endif
