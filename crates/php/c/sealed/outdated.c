/* Whether the image is still the application: what its boot depends on, PHP's settings, and the
 * code in opcache's memory that it points to. */
#include <dirent.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>

#include "sealed/outdated.h"
#include "ground/state.h"
#include "php_ini.h"
#include "process/opcache.h"
#include "sealed/dependencies.h"

static known_file *files;
static size_t file_count, file_room;
static const known_file *younger_than_boot; /* NULL: none */
static const char *cache_reason;

static bool looks_the_same(const known_file *file, file_mark now)
{
    const file_mark *then = &file->mark;

    if (then->inode == 0 || now.inode == 0) {
        return then->inode == now.inode;
    }
    if (file->kind == PRESENCE) {
        return now.mode == then->mode && now.owner == then->owner && now.group == then->group;
    }
    /* Who writes a file can put its size and its time of modification back, but not the other. */
    return now.inode == then->inode && now.size == then->size &&
           memcmp(&now.modified, &then->modified, sizeof(now.modified)) == 0 &&
           memcmp(&now.changed, &then->changed, sizeof(now.changed)) == 0;
}

static file_mark mark_now(const known_file *file)
{
    return dependencies_mark(file->path, file->kind);
}

/* Whatever has changed since the boot began may have been read before or after. */
static bool is_younger_than_boot(const known_file *file)
{
    const struct timespec begun = dependencies_begun();
    const struct timespec changed = file->mark.changed;

    return file->kind != PRESENCE && file->mark.inode != 0 && !file->is_own &&
           (changed.tv_sec > begun.tv_sec ||
            (changed.tv_sec == begun.tv_sec && changed.tv_nsec >= begun.tv_nsec));
}

static known_file *learn(const char *path, file_mark mark, dependence kind)
{
    known_file *more, *file;

    if (file_count == file_room) {
        more = realloc(files, (file_room * 2 + 64) * sizeof(*files));
        if (!more) {
            return NULL;
        }
        files = more;
        file_room = file_room * 2 + 64;
    }
    file = &files[file_count];
    *file = (known_file){.path = strdup(path), .mark = mark, .kind = kind};
    if (!file->path) {
        return NULL;
    }
    file_count++;
    return file;
}

static void learn_setting(const char *path, bool is_directory)
{
    known_file *file = learn(path, dependencies_mark(path, CONTENT), CONTENT);

    if (file) {
        file->is_setting = true;
        file->is_directory = is_directory;
    }
}

static void learn_settings_in(const char *directory)
{
    const struct dirent *entry;
    char path[PATH_MAX];
    DIR *open = opendir(directory);

    learn_setting(directory, true);
    while (open && (entry = readdir(open))) {
        const char *end = strrchr(entry->d_name, '.');
        if (end && strcmp(end, ".ini") == 0 &&
            snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name) < PATH_MAX) {
            learn_setting(path, false);
        }
    }
    if (open) {
        closedir(open);
    }
}

/* As PHP reads them: in a list of directories an empty one is that of the distribution. */
static void learn_settings(void)
{
    char *copy = php_ini_scanned_path ? strdup(php_ini_scanned_path) : NULL, *rest = copy;

    for (char *directory = strsep(&rest, ":"); directory; directory = strsep(&rest, ":")) {
        learn_settings_in(*directory ? directory : PHP_CONFIG_FILE_SCAN_DIR);
    }
    free(copy);
    if (php_ini_opened_path) {
        learn_setting(php_ini_opened_path, false);
    }
}

void outdated_learn_files(void)
{
    const bool looks_at_code = zend_ini_long("opcache.validate_timestamps",
                                             sizeof("opcache.validate_timestamps") - 1, 0);
    HashTable *noted;
    dependency *entry;
    zend_string *path;

    dependencies_end();
    noted = dependencies_noted();
    if (noted) {
        ZEND_HASH_FOREACH_STR_KEY_PTR(noted, path, entry) {
            const bool is_code = zend_hash_exists(&EG(included_files), path);
            known_file *file;
            /* A log or the like: requests go on writing to it. */
            if (entry->is_output && !entry->is_named && !is_code) {
                continue;
            }
            /* Without timestamps files are declared to stay as they are. */
            if (!entry->is_named && !(looks_at_code && (entry->is_of_boot || is_code))) {
                continue;
            }
            file = learn(ZSTR_VAL(path), entry->mark, entry->kind);
            if (file) {
                file->is_directory = entry->is_directory;
                file->is_own = entry->is_own;
            }
        } ZEND_HASH_FOREACH_END();
    }
    ZEND_HASH_FOREACH_STR_KEY(&EG(included_files), path) {
        if (path && looks_at_code && !(noted && zend_hash_exists(noted, path))) {
            learn(ZSTR_VAL(path), dependencies_mark(ZSTR_VAL(path), CONTENT), CONTENT);
        }
    } ZEND_HASH_FOREACH_END();
    dependencies_forget();
    learn_settings();
    for (size_t i = 0; i < file_count && !younger_than_boot; i++) {
        if (is_younger_than_boot(&files[i])) {
            younger_than_boot = &files[i];
        }
    }
}

void outdated_visit(void (*visit)(const known_file *file, void *with), void *with)
{
    for (size_t i = 0; i < file_count; i++) {
        visit(&files[i], with);
    }
}

void outdated_add(const known_file *other)
{
    known_file *file = learn(other->path, other->mark, other->kind);

    if (file) {
        file->is_directory = other->is_directory;
        file->is_own = other->is_own;
        file->is_setting = other->is_setting;
    }
}

void outdated_without_cache(void)
{
    cache_reason = "";
}

static void set(const char *setting, const char *value)
{
    zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), setting, strlen(setting));
    zend_string *now = zend_string_init(value, strlen(value), 1);

    if (entry && entry->on_modify &&
        entry->on_modify(entry, now, entry->mh_arg1, entry->mh_arg2, entry->mh_arg3,
                         ZEND_INI_STAGE_STARTUP) == SUCCESS) {
        entry->value = now; /* what it had is the process's, which ends soon */
    }
}

/* opcache believes what it knows of a file for opcache.revalidate_freq, by a clock that stands
 * still from when a script begins. */
void shim_looks_at_each_file(void)
{
    set("opcache.revalidate_freq", "0");
}

static bool is_for_one_request;

void shim_boots_afresh(int for_one_request)
{
    shim_looks_at_each_file();
    set("opcache.revalidate_path", "1"); /* else it believes for ever where a path leads */
    is_for_one_request = for_one_request;
    if (for_one_request) {
        dependencies_note_start();
        dependencies_begin();
    }
}

void outdated_note_booted(void)
{
    if (is_for_one_request) {
        outdated_learn_files();
    }
}

/* Rust asks, with frames of its own between the boot's zend_try and this one. */
static int cache_restarts(void)
{
    volatile int restarts = 0;

    zend_try {
        restarts = opcache_restarts();
    } zend_end_try();
    return restarts;
}

int shim_boot_changed(void)
{
    for (size_t i = 0; i < file_count; i++) {
        if (!files[i].is_setting &&
            !looks_the_same(&files[i], mark_now(&files[i]))) {
            return 1;
        }
    }
    return younger_than_boot && !younger_than_boot->is_setting;
}

const char *shim_outdated(int *newer)
{
    static char reason[PATH_MAX + 64];
    const known_file *found = younger_than_boot;
    const char *what = "has changed while the application booted";

    younger_than_boot = NULL;
    for (size_t i = 0; i < file_count; i++) {
        known_file *file = &files[i];
        const file_mark now = mark_now(file);
        if (looks_the_same(file, now)) {
            continue;
        }
        if (!found || (found->is_setting && !file->is_setting)) {
            found = file;
            what = !file->mark.inode ? "is there now" : !now.inode ? "is gone" : "has changed";
        }
        file->mark = now; /* each change is reported once */
    }
    if (found) {
        *newer = found->is_setting ? SHIM_SETTINGS : SHIM_APPLICATION;
        snprintf(reason, sizeof(reason), "%s %s", found->path, what);
        return reason;
    }
    if (!cache_reason && cache_restarts()) {
        *newer = SHIM_CACHE;
        return cache_reason = "opcache was reset, or is full";
    }
    return NULL;
}

/* Of what is missing, the directory is watched that would get it, or the nearest that is there. */
static void watch_for(int line, const char *path)
{
    char directory[PATH_MAX];

    if (strlen(path) >= sizeof(directory)) {
        return;
    }
    strcpy(directory, path);
    do {
        dirname(directory);
    } while (inotify_add_watch(line, directory,
                               IN_CREATE | IN_MOVED_TO | IN_ONLYDIR | IN_MASK_ADD) < 0 &&
             directory[1]);
}

/* A path leads elsewhere when one of its folders is moved away, or a link in it is replaced. */
static void watch_way(int line, const char *path, HashTable *watched)
{
    const uint32_t gone = IN_DELETE_SELF | IN_MOVE_SELF | IN_MASK_ADD;
    char way[PATH_MAX];

    if (strlen(path) >= sizeof(way)) {
        return;
    }
    strcpy(way, path);
    for (dirname(way); way[1] && zend_hash_str_add_empty_element(watched, way, strlen(way));
         dirname(way)) {
        inotify_add_watch(line, way, gone | IN_ONLYDIR);
        inotify_add_watch(line, way, gone | IN_DONT_FOLLOW);
    }
}

int shim_watch_boot(void)
{
    const uint32_t of_name = IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_MASK_ADD;
    const uint32_t of_file = IN_MODIFY | of_name;
    const uint32_t of_directory =
        IN_CREATE | IN_DELETE | IN_MOVE | IN_DELETE_SELF | IN_MOVE_SELF | IN_MASK_ADD;
    int line = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    HashTable watched;

    zend_hash_init(&watched, 64, NULL, NULL, 1);
    for (size_t i = 0; line >= 0 && i < file_count; i++) {
        const known_file *file = &files[i];
        if (file->mark.inode == 0) {
            watch_for(line, file->path);
        } else if (file->kind == LINK) {
            inotify_add_watch(line, file->path, of_name | IN_DONT_FOLLOW);
        } else if (file->kind == PRESENCE) {
            inotify_add_watch(line, file->path, of_name);
        } else {
            inotify_add_watch(line, file->path, file->is_directory ? of_directory : of_file);
        }
        watch_way(line, file->path, &watched);
    }
    zend_hash_destroy(&watched);
    return line;
}
