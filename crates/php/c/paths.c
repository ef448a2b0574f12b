/* PHP's realpath cache: which file a path leads to, and which folders it leads through.
 *
 * A process of classic mode looks a path up once in two minutes; one that is rolled back would do
 * so in each request. So a worker notes what its first requests look up, and puts into its image
 * what most of them have: the application's own files. A path of a single visitor stays out,
 * because realpath_cache_get() would show it to the next one.
 *
 * PHP forgets a path after realpath_cache_ttl seconds, so that it follows a link that was changed.
 * In the image it would find the same old entry again each time. So those entries never end, and
 * the worker itself looks all of them up again when their time is over.
 */
#include <time.h>

#include "paths.h"
#include "noted.h"
#include "state.h"

/* Bytes of noted paths: four times what the Symfony application of the examples looks up. */
enum { ROOM = 64 * 1024 };

/* Kept memory. */
typedef struct {
    uint32_t requests; /* that were noted */
    time_t checked;
    noted_texts noted;
} lasting_paths;

static lasting_paths *paths;
/* In the image. */
static zend_long lifetime;
static uint64_t learned; /* digest of the cache; 0: nothing was learned */

size_t paths_size(void)
{
    return offsetof(lasting_paths, noted) + noted_size(ROOM);
}

void paths_begin(void *memory)
{
    paths = memory;
    noted_begin(&paths->noted, ROOM);
    lifetime = INI_INT("realpath_cache_ttl");
}

static time_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return t.tv_sec;
}

typedef void (*visitor)(realpath_cache_bucket *entry, void *context);

static void visit(visitor see, void *context)
{
    realpath_cache_bucket **buckets = realpath_cache_get_buckets();

    for (zend_long i = 0; i < realpath_cache_max_buckets(); i++) {
        for (realpath_cache_bucket *entry = buckets[i]; entry; entry = entry->next) {
            see(entry, context);
        }
    }
}

static void note(realpath_cache_bucket *entry, void *nothing)
{
    (void)nothing;
    noted_add(&paths->noted, entry->key, entry->path, entry->path_len);
}

void paths_note(void)
{
    paths->requests++;
    visit(note, NULL);
}

/* Whatever the cache held before: looking up the same paths again then fills it alike. */
static void look_up(void)
{
    char resolved[MAXPATHLEN];

    realpath_cache_clean();
    for (size_t i = 0; i < paths->noted.count; i++) {
        const noted_text *path = &paths->noted.all[i];
        if (path->requests > paths->requests / 2) {
            tsrm_realpath(noted_at(&paths->noted, path), resolved);
        }
    }
}

static void add_to_digest(realpath_cache_bucket *entry, void *digest)
{
    *(uint64_t *)digest += zend_inline_hash_func(entry->path, entry->path_len) * 31 +
                           zend_inline_hash_func(entry->realpath, entry->realpath_len) +
                           entry->is_dir;
}

static uint64_t digest_of_cache(void)
{
    uint64_t digest = 0;

    visit(add_to_digest, &digest);
    return digest;
}

static void keep(realpath_cache_bucket *entry, void *count)
{
    entry->expires = ZEND_LONG_MAX;
    ++*(int *)count;
}

int paths_learn(void)
{
    int count = 0;

    look_up();
    learned = digest_of_cache();
    visit(keep, &count);
    paths->checked = now();
    return count;
}

int paths_are_due(void)
{
    return learned && lifetime > 0 && now() - paths->checked >= lifetime;
}

int paths_hold(void)
{
    paths->checked = now();
    look_up();
    return digest_of_cache() == learned;
}

void paths_forget_due(void)
{
    if (paths_are_due()) {
        realpath_cache_clean();
    }
}
