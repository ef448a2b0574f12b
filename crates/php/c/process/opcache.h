/* opcache, as its users see it. */
#ifndef TOKAMAK_OPCACHE_H
#define TOKAMAK_OPCACHE_H

int opcache_restarts(void);

#endif
