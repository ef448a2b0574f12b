/* What others see of each request of async mode: whether it runs, or what it waits for.
 *
 * It stands in the request's slot of the queue, in shared memory, and crates/sys/src/queue/doing.rs
 * reads it. Each switch writes two words and asks the kernel for nothing: the clock is the one that
 * the kernel has set at its last tick, some milliseconds ago at most.
 */
#include <time.h>

#include "async/shown.h"
#include "async/reactor.h"

enum { OTHERS_AT = 8, DETAIL_AT = 16, MOST_OTHERS = 255 };

#define MOST_DETAIL ((UINT64_C(1) << (64 - DETAIL_AT)) - 1)
#define SECOND UINT64_C(1000000000)
#define MICROSECOND UINT64_C(1000)

static void show(const request_state *request, uint64_t state)
{
    shim_doing *doing = request->request->doing;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    doing->since = (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
    doing->state = state;
}

void shown_running(const request_state *request)
{
    if (request->request) {
        show(request, SHIM_RUNS);
    }
}

static uint64_t kind_of(const reactor_wait *wait)
{
    if (wait->kind != SHIM_RUNS) {
        return wait->kind;
    }
    if (wait->count > 0) {
        return SHIM_AWAITS_DESCRIPTOR;
    }
    return wait->deadline == REACTOR_FOREVER ? SHIM_AWAITS_OTHERS : SHIM_SLEEPS;
}

static uint64_t detail_of(const reactor_wait *wait, uint64_t kind)
{
    switch (kind) {
    case SHIM_AWAITS_DESCRIPTOR:
        return (uint64_t)(uint32_t)wait->fds[0].fd;
    case SHIM_SLEEPS:
        return wait->deadline / MICROSECOND;
    default:
        return 0;
    }
}

void shown_waiting(const request_state *request, const reactor_wait *wait, unsigned others)
{
    uint64_t kind, detail;

    if (!request->request) {
        return;
    }
    if (!wait) {
        show(request, SHIM_SUSPENDED);
        return;
    }
    kind = wait->is_over ? SHIM_READY : kind_of(wait);
    detail = detail_of(wait, kind);
    others = others < MOST_OTHERS ? others : MOST_OTHERS;
    show(request, kind | (uint64_t)others << OTHERS_AT |
                      (detail < MOST_DETAIL ? detail : MOST_DETAIL) << DETAIL_AT);
}
