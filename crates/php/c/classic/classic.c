/* What PHP's request shutdown leaves in the process, and classic mode does not: each request finds
 * what the first one found.
 *
 * A change is noted where it is made, in front of libc's functions (interpose.c) and of PHP's, so
 * that a request which changes nothing costs no system call. What cannot be put back replaces the
 * process after the response.
 *
 * Threads, mappings and descriptors are different: extensions keep them from request to request on
 * purpose. They are looked at only after a request that has called C by itself, with FFI.
 */
#include <dlfcn.h>
#include <libintl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "classic/classic.h"
#include "ground/libraries.h"
#include "ground/state.h"
#include "ground/taint.h"
#include "ground/variables.h"
#include "image.h"
#include "process/descriptors.h"
#include "process/directory.h"
#include "process/ffi.h"
#include "process/process_state.h"
#include "process/program_memory.h"
#include "process/semaphores.h"

static int is_learned;

/* ---- environment and text domain ---- */

static struct {
    char **learned, **used; /* libc writes to the one that is used */
    size_t bytes;
    char *domain;
} base;

void classic_note_environment(void)
{
    serving->changes.environment = 1;
}

void classic_note_text_domain(void)
{
    serving->changes.text_domain = 1;
}

static void learn_environment(void)
{
    size_t count = 0;

    while (environ && environ[count]) {
        count++;
    }
    base.bytes = (count + 1) * sizeof(*environ);
    base.learned = calloc(count + 1, sizeof(*environ));
    base.used = calloc(count + 1, sizeof(*environ));
    if (count > 0 && base.learned) {
        memcpy(base.learned, environ, base.bytes);
    }
    base.domain = strdup(textdomain(NULL));
    serving->changes.environment = serving->changes.text_domain = 0;
}

static void put_back_environment(void)
{
    if (serving->changes.environment && base.learned && base.used) {
        const char *zone = getenv("TZ");
        memcpy(base.used, base.learned, base.bytes);
        environ = base.used;
        if (getenv("TZ") != zone) {
            tzset();
        }
    }
    if (serving->changes.text_domain && base.domain) {
        textdomain(base.domain);
    }
    serving->changes.environment = serving->changes.text_domain = 0;
}

/* ---- code in C that a request calls ---- */

enum { MOST_DESCRIPTORS = 1024 };

/* descriptors that were open before the first request */
static unsigned char known[MOST_DESCRIPTORS / 8];

static void note_mapping(const void *at, int is_new)
{
    process_changes *c = &serving->changes;

    if (is_new && c->called_c) {
        if (c->foreign_count == MOST_FOREIGN) {
            taint_note("a request made too many memory mappings");
        } else {
            c->foreign[c->foreign_count++] = at;
        }
    }
    for (size_t i = 0; !is_new && i < c->foreign_count; i++) {
        if (c->foreign[i] == at) {
            c->foreign[i] = c->foreign[--c->foreign_count];
        }
    }
}

static void note_known(int fd, void *nothing)
{
    (void)nothing;
    if (fd < MOST_DESCRIPTORS) {
        known[fd / 8] |= (unsigned char)(1 << fd % 8);
    }
}

/* A socket may be a connection that is meant to stay. */
static void look_at_descriptor(int fd, void *nothing)
{
    struct stat st;

    (void)nothing;
    if (fd < MOST_DESCRIPTORS && !(known[fd / 8] >> fd % 8 & 1) && fstat(fd, &st) == 0 &&
        !S_ISSOCK(st.st_mode)) {
        taint_note("a request that called C left a file open");
    }
}

static void look_closely(void)
{
    process_state_look_for_threads();
    descriptors_visit(look_at_descriptor, NULL);
    if (serving->changes.foreign_count > 0) {
        taint_note("a request that called C left a memory mapping");
    }
    if (!program_memory_is_whole()) {
        taint_note("a request that called C changed the program's memory");
    }
    directory_note_change(); /* it may be another: PHP's is entered anew */
    serving->changes.called_c = 0;
    serving->changes.foreign_count = 0;
}

/* ---- around a request ---- */

void classic_begin(void)
{
    if (is_learned) {
        libraries_begin();
        return;
    }
    is_learned = 1;
    process_state_watch();
    learn_environment();
    variables_learn();
    libraries_learn();
    descriptors_visit(note_known, NULL);
    image_watch_mappings(note_mapping);
    ffi_watch();
    if (ffi_is_watched()) {
        program_memory_learn();
    }
}

void classic_end(void)
{
    const char *taint;

    if (!is_learned) {
        return;
    }
    semaphores_restore();
    process_state_look(serving->changes.called_c);
    if (serving->changes.called_c) {
        look_closely();
    }
    process_state_put_back();
    put_back_environment();
    libraries_put_back();
    taint = taint_reason();
    if (taint) {
        rust_leave(taint);
    }
}
