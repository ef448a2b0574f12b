/* The memory of a worker, read by its zygote or by what the zygote has forked: they are copies of
 * each other, so the engine's globals have the same addresses in all of them. The worker notices
 * nothing, and what is read may be in the middle of a change. So no pointer is followed: the kernel
 * copies, and fails where a pointer would crash. Others may not read a worker's memory, so it opens
 * it itself at its beginning, and gives it to the zygote.
 *
 * Only async-signal-safe calls: a signal handler reads its own process like this.
 */
#include <sys/uio.h>
#include <unistd.h>

#include "peek.h"

#include <Zend/zend_signal.h>

static pid_t target;
static int target_memory; /* its /proc/PID/mem, -1: none */
static shim_request request_copy;

void peek_at(pid_t pid, int memory)
{
    target = pid;
    target_memory = memory;
}

int peek(void *to, const void *from, size_t len)
{
    struct iovec here = {to, len}, there = {(void *)from, len};

    if (target_memory != -1) {
        return pread(target_memory, to, len, (off_t)(uintptr_t)from) == (ssize_t)len;
    }
    return process_vm_readv(target, &here, 1, &there, 1, 0) == (ssize_t)len;
}

int shim_is_in_locks(int pid, int memory)
{
#ifdef ZEND_SIGNALS
    int depth;

    peek_at(pid, memory);
    return peek(&depth, &SIGG(depth), sizeof(depth)) && depth > 0;
#else
    (void)pid;
    (void)memory;
    return 0;
#endif
}

const shim_request *peek_request(const request_state *state)
{
    return state->request && peek(&request_copy, state->request, sizeof(request_copy))
               ? &request_copy
               : NULL;
}
