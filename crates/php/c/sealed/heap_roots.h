/* Where the walk over a worker's memory begins. */
#ifndef TOKAMAK_HEAP_ROOTS_H
#define TOKAMAK_HEAP_ROOTS_H

void heap_roots_push(void);
/* When all that these lead to has been met: objects that no root leads to, since an extension, a
 * library or the middle of an expression holds them. */
void heap_roots_push_the_rest(void);
/* What was asked for the walk. */
void heap_roots_forget(void);

#endif
