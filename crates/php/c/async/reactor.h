/* What a worker of async mode waits for: descriptors, points in time, its doorbell. */
#ifndef TOKAMAK_REACTOR_H
#define TOKAMAK_REACTOR_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/shim.h"

#define REACTOR_FOREVER UINT64_MAX
/* Instead of a number of descriptors that are ready: one of them is closed. */
#define REACTOR_CLOSED -1
/* The same: the wait was cancelled. */
#define REACTOR_BROKEN -2

typedef struct reactor_wait reactor_wait;

/* One descriptor of a wait, in the list of those that wait for the same. */
typedef struct reactor_watch {
    reactor_wait *wait;
    struct reactor_watch *next;
    int fd;
} reactor_watch;

/* Who waits, and for what. In memory of the one who waits, where it stays until it is over. */
struct reactor_wait {
    struct pollfd *fds;
    nfds_t count;
    reactor_watch *watches; /* room for as many */
    uint64_t deadline;      /* nanoseconds of CLOCK_MONOTONIC */
    bool for_doorbell;      /* also for whatever the doorbell is rung for */
    uint8_t kind;           /* SHIM_AWAITS_...; 0: as descriptors and deadline say */
    shim_doing *const *shown; /* where others see that it is over; NULL: nowhere */
    void *owner;            /* the context that goes on then */
    void *reason;           /* why it was broken off, for the owner */
    void (*go_on)(reactor_wait *wait); /* instead of a context; NULL: it is one */
    /* the reactor's own */
    /* how many of the descriptors have something; 0: the time is over, or the bell rang */
    int ready;
    bool is_over;
    size_t place; /* among the timers, from 1; 0: none */
    reactor_wait *next, **before;
};

uint64_t reactor_now(void);
/* False: descriptors for it cannot be had. */
bool reactor_begin(int doorbell);
void reactor_end(void);
void reactor_add(reactor_wait *wait);
/* Ends a wait as if its time were over. */
void reactor_finish(reactor_wait *wait);
/* Whether only those who run can end it: no descriptor, no time, no ring of the doorbell. */
bool reactor_is_endless(const reactor_wait *wait);
/* A descriptor is about to be closed: who waits for it need not wait longer. */
void reactor_note_closed(int fd);
/* Ends a wait before its time; one that is over already stays as it is. */
void reactor_break(reactor_wait *wait);
/* Whether the doorbell was rung since the last time that this was asked. */
bool reactor_was_rung(void);
/* Waits for something to be over; not at all if some wait is over already, or without patience. May
 * return for nothing. */
void reactor_look(bool patiently);
/* Of the waits that are over the one that has been for longest, or the nth after it, counted in a
 * circle; NULL: none is. */
reactor_wait *reactor_take(size_t nth);
/* How many are over. */
size_t reactor_over(void);

#endif
