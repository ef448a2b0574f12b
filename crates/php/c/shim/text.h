/* Text that C and Rust hand to each other. */
#ifndef TOKAMAK_SHIM_TEXT_H
#define TOKAMAK_SHIM_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Bytes followed by a NUL that `len` does not count. */
typedef struct {
    const char *at;
    size_t len;
} shim_text;

typedef struct {
    shim_text name;
    shim_text value;
} shim_pair;

_Static_assert(sizeof(shim_text) == 16 && sizeof(shim_pair) == 32, "texts are two words");

#endif
