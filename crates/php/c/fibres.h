/* A Fiber for each request of async mode. */
#ifndef TOKAMAK_FIBRES_H
#define TOKAMAK_FIBRES_H

#include "reactor.h"
#include "state.h"

/* Serves one request in its Fiber. False: PHP cannot be relied on any more. */
typedef bool (*fibres_handler)(const shim_request *request);

/* In the script, when its loop begins, and when it has ended. */
bool fibres_begin(size_t most, uint32_t seed, fibres_handler handler);
void fibres_end(void);
/* After module start-up. */
void fibres_watch(void);

/* Begins a request; returns when it waits for something, or is over. */
void fibres_start(const shim_request *request);
/* For tests: whoever could go on lets others go first. */
bool fibres_take_turns(void);
/* Goes on with those whose wait is over. */
void fibres_go_on(void);
/* Requests under way. */
size_t fibres_count(void);

/* Whether what runs now can wait while others run. Also asked on other threads. */
bool fibres_may_park(void);
/* Lets others run until the wait is over. Keeps errno. */
void fibres_park(reactor_wait *wait);
/* A descriptor is about to be closed, on whatever thread. */
void fibres_note_closed(int fd);

#endif
