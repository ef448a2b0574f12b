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

#include "ground/peek.h"

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

int shim_waits_in_apcu(int pid, int memory)
{
    const zend_module_entry *apcu = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("apcu"));
    const zend_execute_data *innermost;
    zend_execute_data frame;
    zend_internal_function called;

    peek_at(pid, memory);
    return apcu && peek(&innermost, &EG(current_execute_data), sizeof(innermost)) && innermost &&
           peek(&frame, innermost, sizeof(frame)) && frame.func &&
           peek(&called.type, frame.func, sizeof(called.type)) &&
           called.type == ZEND_INTERNAL_FUNCTION && peek(&called, frame.func, sizeof(called)) &&
           called.module == apcu;
}

const shim_request *peek_request(const request_state *state)
{
    return state->request && peek(&request_copy, state->request, sizeof(request_copy))
               ? &request_copy
               : NULL;
}
