/* The boot and the image of sealed mode, and whether they are outdated. */
#ifndef TOKAMAK_SHIM_SEALED_H
#define TOKAMAK_SHIM_SEALED_H

#include "shim/request.h"
#include "shim/run.h"

/* A worker's place on the board, and which of those that had it this one is. Its
 * /proc/self/pagemap, which a process that may not be traced cannot open; below 0 the number of an
 * error. */
typedef struct {
    uint32_t index, instance;
    int page_map;
} shim_worker_id;

_Static_assert(sizeof(shim_worker_id) == 12, "no padding in an id");

/* Sealed mode, in the zygote: boots with this script (a worker script; with is_boot one that only
 * prepares; NULL: none), takes the image, and calls rust_fork_workers(). Returns when the boot
 * failed. The page map is the zygote's, as in shim_worker_id; the line is another descriptor of its
 * own. */
shim_exit shim_run_sealed(const char *script, int is_boot, int backtrace_signal, int page_map,
                          int line);
/* What is newer than the image: tokamak_sys::control::Newer. */
enum { SHIM_SETTINGS, SHIM_APPLICATION, SHIM_CACHE };
/* In the zygote: what has changed since it was last asked, or since the boot looked; NULL:
 * nothing. */
const char *shim_outdated(int *newer);
/* Whether anything has changed on which the boot depends. */
int shim_boot_changed(void);
/* A descriptor that is readable when something of that changes, as far as the kernel says so; below
 * 0: there is none. */
int shim_watch_boot(void);
/* The same of a boot of which no image could be taken, for the next zygote: a descriptor, below 0
 * if there is none; and there, which takes it. */
int shim_save_boot_files(void);
void shim_load_boot_files(int fd);
/* Before the boot of a worker: what this process loads from here on is as it is by then. */
void shim_looks_at_each_file(void);
/* In a process that stands in for an image: no cache answers for a file without a look at it. If it
 * boots for one request, what the boot depends on is noted from here on. */
void shim_boots_afresh(int for_one_request);
/* In classic mode: requests run this script first. The text stays. */
void shim_boot_each_request(const char *script);
/* In the zygote, before it forks: what the kernel keeps for it is as it should be. */
void shim_zygote_begins(void);
/* In the zygote: what of that was changed from outside; NULL: nothing. */
const char *shim_zygote_changed(void);

/* The next request to warm up with; NULL: there are no more. */
const shim_request *rust_warm(void);
/* The image is taken, or cannot be, for this reason. Forks workers until the zygote ends; returns
 * in each worker, with its place: C makes a worker of that process. */
shim_worker_id rust_fork_workers(void);
/* No image can be taken: ends this process, and has the site run in another mode. */
_Noreturn void rust_refuse_image(const char *reason);
/* A worker that could not begin, for this reason. */
_Noreturn void rust_fail(const char *reason);
/* Memory went back: which worker this is, how many requests it has served, how long the way back
 * took, and how many pages were copied. */
void rust_resume(uint32_t index, uint32_t instance, uint64_t served, uint64_t took_ns,
                 uint32_t pages);
/* The worker ends, because it was asked to, or because something could not be undone. */
_Noreturn void rust_leave(const char *taint);

#endif
