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

#include "sealed/paths.h"
#include "ground/state.h"
#include "sealed/noted.h"

/* Bytes of noted paths: four times what the Symfony application of the examples looks up. */
enum { ROOM = 64 * 1024 };

/* In the persistent region. */
typedef struct {
    uint32_t requests; /* that were noted */
    time_t checked;
    noted_texts noted;
} lasting_paths;

static lasting_paths *paths;
/* In the image. */
static zend_long lifetime;
static int in_image;     /* paths that the boot looked up */
static uint64_t learned; /* digest of the cache; 0: nothing was learned */

size_t paths_size(void)
{
    return offsetof(lasting_paths, noted) + noted_size(ROOM);
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

static void count(realpath_cache_bucket *entry, void *total)
{
    (void)entry;
    ++*(int *)total;
}

void paths_begin(void *memory)
{
    paths = memory;
    noted_begin(&paths->noted, ROOM);
    lifetime = INI_INT("realpath_cache_ttl");
    in_image = 0;
    visit(count, &in_image);
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

static int is_of_most(const noted_text *path)
{
    return path->requests > paths->requests / 2;
}

/* To extend the image costs each request some pages, which only look-ups that it saves pay for: a
 * booted application has its paths in the image already. */
static int is_worth_it(void)
{
    int of_most = 0;

    for (size_t i = 0; i < paths->noted.count; i++) {
        of_most += is_of_most(&paths->noted.all[i]);
    }
    return of_most > in_image;
}

/* Whatever the cache held before: looking up the same paths again then fills it alike. */
static void look_up(void)
{
    char resolved[MAXPATHLEN];

    realpath_cache_clean();
    for (size_t i = 0; i < paths->noted.count; i++) {
        const noted_text *path = &paths->noted.all[i];
        if (is_of_most(path)) {
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

static void keep(realpath_cache_bucket *entry, void *total)
{
    entry->expires = ZEND_LONG_MAX;
    count(entry, total);
}

int paths_learn(void)
{
    int kept = 0;

    if (!is_worth_it()) {
        return 0;
    }
    look_up();
    learned = digest_of_cache();
    visit(keep, &kept);
    paths->checked = now();
    return kept;
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
