/* Errors that OpenSSL has noted for a request of async mode. */
#ifndef TOKAMAK_OWN_OPENSSL_H
#define TOKAMAK_OWN_OPENSSL_H

#include "ground/state.h"

/* OpenSSL keeps as many, and forgets the oldest. */
enum { MOST_OPENSSL_ERRORS = 16 };

typedef struct {
    unsigned long codes[MOST_OPENSSL_ERRORS];
    size_t count;
} openssl_queue;

/* In the script, when its loop begins. */
void own_openssl_learn(void);
/* The request goes, and takes its errors along; it comes back with them; it has ended. */
void own_openssl_leave(openssl_queue *own);
void own_openssl_enter(openssl_queue *own);
void own_openssl_end(void);

#endif
