/* What was open when the image was taken, and how it stood; for descriptors.c alone. */
#ifndef TOKAMAK_DESCRIPTORS_BOOT_H
#define TOKAMAK_DESCRIPTORS_BOOT_H

#include <fcntl.h>
#include <sys/stat.h>

#include "process/descriptors.h"

typedef enum {
    SHARED,   /* by all workers, and perhaps with others: flags alone are put back */
    REOPENED, /* a file or a directory: each worker has opened it for itself */
    COUNTER,  /* an eventfd: made anew after a request that may have counted */
    HUNG_UP,  /* stands for a socket of the boot; the request that closes it finds it again */
    REFUSED   /* its state can neither be read nor put back */
} descriptor_kind;

typedef struct {
    int fd;
    descriptor_kind kind;
    dev_t device;
    ino_t inode;
    int flags, closes_on_exec;
    off_t at;              /* of a file: where the boot left it; -1: it has no position */
    uint64_t count;        /* of a counter */
    struct f_owner_ex owner; /* who gets a signal, and which, when it can be read */
    int owner_signal;
    off_t held_at, held_len; /* the bytes on which the boot holds a shared lock; no length: none */
} descriptor;

/* Of the image. */
typedef struct {
    descriptor *all;
    size_t count;
} boot_descriptors;

extern boot_descriptors descriptors_boot;

void descriptors_boot_learn(const char *script);
/* What is refused is noted for descriptors_refusal(), and learnt nevertheless. */
descriptor_kind descriptors_boot_add(int fd, const struct stat *st);
/* Puts a socket whose peer has hung up in the place of what `fd` is, if it is anything. 0 or more,
 * or -1. */
int descriptors_boot_hang_up(int fd);

#endif
