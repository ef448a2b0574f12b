/* What a worker shows to others, in memory that they read. */
#ifndef TOKAMAK_SHIM_BOARD_H
#define TOKAMAK_SHIM_BOARD_H

#include <stdint.h>

/* What a request of async mode does, in memory that others read: crates/sys/src/queue/doing.rs. The
 * lowest byte of the state is one of these, the next counts further waits of the request. What is
 * above is the descriptor, or the time until which it sleeps, in microseconds of
 * CLOCK_MONOTONIC. */
enum {
    SHIM_RUNS,
    SHIM_READY, /* its wait is over; others run */
    SHIM_SLEEPS,
    SHIM_AWAITS_DESCRIPTOR,
    SHIM_AWAITS_ROOM, /* for its response */
    SHIM_AWAITS_BODY,
    SHIM_AWAITS_LOCK,
    SHIM_AWAITS_SEMAPHORE,
    SHIM_AWAITS_MESSAGE, /* of a queue of System V, or room there */
    SHIM_AWAITS_PROCESS,
    SHIM_AWAITS_SIGNAL,
    SHIM_AWAITS_NAME,
    SHIM_AWAITS_PIPE,   /* its other end */
    SHIM_AWAITS_LISTENER, /* that has too many connections to accept one more */
    SHIM_AWAITS_OTHERS, /* coroutines, or code that completes a Deferred */
    SHIM_SUSPENDED      /* by Fiber::suspend() */
};
typedef struct {
    volatile uint64_t since; /* nanoseconds of CLOCK_MONOTONIC */
    volatile uint64_t state;
} shim_doing;

/* What a request has called, in memory that others read: crates/sys/src/queue/calls.rs. */
enum { SHIM_CALL_SQL, SHIM_CALL_HTTP, SHIM_CALL_KINDS };
typedef struct {
    volatile uint32_t count;
    volatile uint32_t open; /* calls that have not returned */
    /* Nanoseconds of all calls; each open one has taken away the time of its begin. */
    volatile uint64_t time;
} shim_call_sum;
typedef struct {
    shim_call_sum sum[SHIM_CALL_KINDS];
    /* The longest call that has returned: its nanoseconds, and its kind. */
    volatile uint64_t longest, longest_kind;
    /* The call that began last: when (0: it has returned), and its kind. */
    volatile uint64_t latest, latest_kind;
} shim_calls;

/* Whom a descriptor is connected to: an address as connect() has it. */
typedef struct {
    volatile uint32_t len; /* 0: none */
    uint32_t owner;
    unsigned char address[56];
} shim_peer;
/* Those of a worker, by descriptor; NULL: it has none to write. */
enum { SHIM_PEERS = 1024 };
typedef struct {
    shim_peer *table;
    uint32_t owner; /* this worker, not an earlier one that had the same entry */
} shim_peers;

_Static_assert(sizeof(shim_doing) == 16 && sizeof(shim_peer) == 64 && sizeof(shim_calls) == 64,
               "as the queue has them");

#endif
