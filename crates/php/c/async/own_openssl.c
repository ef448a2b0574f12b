/* OpenSSL has one list of errors for a thread, whatever called it: PHP's functions, curl, libpq.
 * The next caller of openssl_error_string() gets them, and a connection that finds an older error
 * there takes it for its own (SSL_get_error()). So a request takes its errors along when it waits.
 *
 * OpenSSL's headers need not be here; before version 3 there was no way to put an error back. */
#include <dlfcn.h>

#include "async/own_openssl.h"

static struct {
    unsigned long (*peek)(void), (*take)(void);
    void (*begin)(void);
    void (*set)(int library, int reason, const char *format, ...);
} openssl;

/* The parts of a code, as ERR_GET_LIB() and ERR_GET_REASON() find them. */
enum {
    OF_SYSTEM = 2,
    LIBRARY_SHIFT = 23,
    LIBRARY_MASK = 0xff,
    REASON_MASK = 0x7fffff,
    SYSTEM_MASK = 0x7fffffff
};

void own_openssl_learn(void)
{
    *(void **)&openssl.take = dlsym(RTLD_DEFAULT, "ERR_get_error");
    *(void **)&openssl.begin = dlsym(RTLD_DEFAULT, "ERR_new");
    *(void **)&openssl.set = dlsym(RTLD_DEFAULT, "ERR_set_error");
    if (openssl.take && openssl.begin && openssl.set) {
        *(void **)&openssl.peek = dlsym(RTLD_DEFAULT, "ERR_peek_error");
    }
}

void own_openssl_leave(openssl_queue *own)
{
    if (openssl.peek && openssl.peek() != 0) {
        while (own->count < MOST_OPENSSL_ERRORS && (own->codes[own->count] = openssl.take()) != 0) {
            own->count++;
        }
    }
}

void own_openssl_enter(openssl_queue *own)
{
    for (size_t i = 0; i < own->count; i++) {
        const unsigned long code = own->codes[i];
        const int is_of_system = code > SYSTEM_MASK;

        openssl.begin();
        openssl.set(is_of_system ? OF_SYSTEM : (int)(code >> LIBRARY_SHIFT & LIBRARY_MASK),
                    (int)(code & (is_of_system ? SYSTEM_MASK : REASON_MASK)), NULL);
    }
    own->count = 0;
}

void own_openssl_end(void)
{
    if (openssl.peek) {
        while (openssl.peek() != 0) {
            openssl.take();
        }
    }
}
