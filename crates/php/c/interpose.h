/* libc's own functions, past those of interpose.c. */
#ifndef TOKAMAK_INTERPOSE_H
#define TOKAMAK_INTERPOSE_H

#include <dlfcn.h>

/* libc's function of this name. It is looked up at the first call and not in a constructor: the
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
