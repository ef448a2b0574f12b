/* Making a process such that it can be taken. */
#ifndef TOKAMAK_IMAGE_PREPARE_H
#define TOKAMAK_IMAGE_PREPARE_H

/* Leaves libc's heap without holes, and with some free memory at its end. */
void prepare_heap(void);
/* Moves the environment's array to the heap. 0, or -1: there is no memory. */
int prepare_environment(void);
/* Has the kernel write to this thread's memory no more. */
void prepare_rseq(void);

#endif
