/* A process becomes a worker. */
#ifndef TOKAMAK_WORKER_PROCESS_H
#define TOKAMAK_WORKER_PROCESS_H

/* One that was just forked. */
void worker_process_begin(void);
/* One of an image: what a fork does not bring along. -1: the time limit has no timer. */
int worker_process_begin_copy(void);
/* The image of a worker: as if worker_process_begin_copy() had run, because what it notes
 * afterwards is rolled back. */
void worker_process_seal(void);

#endif
