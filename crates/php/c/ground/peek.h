/* The memory of another process, or of this one, copied by the kernel. */
#ifndef TOKAMAK_PEEK_H
#define TOKAMAK_PEEK_H

#include <sys/types.h>

#include "ground/state.h"

/* The process that is read from now on: with a descriptor of its /proc/PID/mem, or -1. */
void peek_at(pid_t pid, int memory);
/* Copies; 0 where a pointer would crash. */
int peek(void *to, const void *from, size_t len);
/* What the process serves: a copy, which lives until the next one; NULL: nothing. */
const shim_request *peek_request(const request_state *state);

#endif
