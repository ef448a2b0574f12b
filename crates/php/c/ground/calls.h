/* Counts and times what requests call in databases and in other servers. */
#ifndef TOKAMAK_CALLS_H
#define TOKAMAK_CALLS_H

/* After all others that stand before functions of PHP. */
void calls_watch(void);

#endif
