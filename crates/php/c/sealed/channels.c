/* What sealed mode does with state that is outside of the image of memory, a row for each kind: how
 * it is learnt at the boot, and how it is put back after a request. "Seen by" names what fails when
 * a row is taken out: channels of tests/canary/channels, from which docs/isolation.md is written,
 * or a module of tests/it. A test reads these names.
 */
#include <stdbool.h>
#include <stddef.h>

#include "sealed/channels.h"
#include "image.h"
#include "process/descriptors.h"
#include "process/ffi.h"
#include "process/process_state.h"
#include "process/semaphores.h"
#include "sealed/connections.h"
#include "sealed/paths.h"
#include "sealed/patterns.h"
#include "sealed/refused_objects.h"

static void restore_connections(int closely)
{
    (void)closely;
    if (connections_reset() != 0) {
        image_note_taint(CONNECTIONS_NOT_RESET);
    }
}

static void restore_semaphores(int closely)
{
    (void)closely;
    semaphores_restore();
}

/* Not at the first look: where every request has thousands of files open, each would get a worker
 * of its own. */
static void check_descriptors(bool is_first)
{
    descriptors_check();
    if (!is_first && descriptors_table_has_grown()) {
        image_note_taint("a request had thousands of files open, for which the kernel made room");
    }
}

/* Every function may be missing. */
static const struct {
    size_t (*size)(void);         /* of what it keeps in memory that survives a roll-back */
    void (*learn)(void *kept);    /* before the image is taken */
    const char *(*refusal)(void); /* why none can be taken; NULL: it can */
    void (*begin)(void);          /* in a new worker */
    void (*restore)(int closely); /* after a request; closely: it has called C by itself */
    void (*check)(bool is_first); /* now and then: notes a taint if something is wrong */
} channels[] = {
    /* The first, so that peers work while the rest is put back. Seen by: kept */
    {.size = connections_size, .learn = connections_learn, .restore = restore_connections},
    /* Seen by: 'semaphore, acquired' */
    {.size = semaphores_size,
     .learn = semaphores_learn,
     .refusal = semaphores_refusal,
     .restore = restore_semaphores},
    /* Seen by: 'descriptor, open in a library', 'directory of the boot, read' */
    {.size = descriptors_size,
     .learn = descriptors_learn,
     .refusal = descriptors_refusal,
     .begin = descriptors_begin,
     .restore = descriptors_restore,
     .check = check_descriptors},
    /* Seen by: 'umask, past the C library', 'signal, waiting' */
    {.size = process_state_size,
     .learn = process_state_learn,
     .begin = process_state_begin,
     .restore = process_state_restore},
    /* Two caches, which a worker hands to the zygote. They put nothing back. */
    {.size = patterns_size, .learn = patterns_begin},
    {.size = paths_size, .learn = paths_begin},
    /* Seen by: descriptors */
    {.refusal = refused_objects_refusal},
};

#define EACH(row) \
    for (size_t row = 0; row < sizeof(channels) / sizeof(*channels); row++)

/* Of what a row keeps: any type may begin behind it. */
static size_t room_of(size_t row)
{
    enum { ALIGNMENT = _Alignof(max_align_t) };
    const size_t size = channels[row].size ? channels[row].size() : 0;

    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

size_t channels_size(void)
{
    size_t size = 0;

    EACH(row) {
        size += room_of(row);
    }
    return size;
}

void channels_learn(char *kept)
{
    EACH(row) {
        if (channels[row].learn) {
            channels[row].learn(kept);
        }
        kept += room_of(row);
    }
}

const char *channels_refusal(void)
{
    const char *refusal = NULL;

    EACH(row) {
        if (!refusal && channels[row].refusal) {
            refusal = channels[row].refusal();
        }
    }
    return refusal;
}

void channels_begin(void)
{
    EACH(row) {
        if (channels[row].begin) {
            channels[row].begin();
        }
    }
}

void channels_restore(void)
{
    const int closely = ffi_was_called();

    EACH(row) {
        if (channels[row].restore) {
            channels[row].restore(closely);
        }
    }
}

void channels_check(bool is_first)
{
    EACH(row) {
        if (channels[row].check) {
            channels[row].check(is_first);
        }
    }
}
