/* The functions of libc and libphp themselves, past those of interpose.c. */
#ifndef TOKAMAK_LIBC_H
#define TOKAMAK_LIBC_H

#include <dlfcn.h>

/* The library's function of this name. It is looked up at the first call and not in a constructor:
 * constructors of other libraries may call before ours would run. */
#define LIBC(name)                                          \
    ({                                                      \
        static __typeof__(&name) found;                     \
        if (!found) {                                       \
            *(void **)&found = dlsym(RTLD_NEXT, #name);     \
        }                                                   \
        found;                                              \
    })

#endif
