/* Where php.ini and its conf.d are looked for. A distribution has folders of them for each SAPI, as
 * Debian has /etc/php/8.2/embed, which libphp knows, and /etc/php/8.2/fpm; `tokamak fpm` reads the
 * latter. Which folder libphp was built with, only PHP's constants show: the headers' macros are
 * those of another SAPI. */
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ground/ini_files.h"
#include "ground/state.h"

#define SCANNED "PHP_INI_SCAN_DIR"
/* Bytes of a list of folders: php.ini's has two paths, that of conf.d seldom has more than four.
 * PHP reads a longer one as it stands, since a list that is cut names other folders. */
#define LONGEST (4 * PATH_MAX)

/* PHP keeps a pointer into the latter, and getenv() gives what putenv() was given. */
static char search[LONGEST], scanned[LONGEST];
static char *scanned_before; /* what the environment said */
static bool is_scanned_ours;

static const char *constant(const char *name)
{
    zval *found = zend_hash_str_find(EG(zend_constants), name, strlen(name));

    found = found ? &((zend_constant *)Z_PTR_P(found))->value : NULL;
    return found && Z_TYPE_P(found) == IS_STRING ? Z_STRVAL_P(found) : "";
}

static bool is_kind(const char *path, bool directory)
{
    struct stat at;

    return stat(path, &at) == 0 && S_ISDIR(at.st_mode) == directory;
}

/* The folder of the other SAPI beside libphp's own, if there are such folders. */
static bool find_beside(char *beside, size_t size, const char *own, const char *other)
{
    const char *name = strrchr(own, '/');

    if (!other || !name || strcmp(name, "/embed") != 0 ||
        snprintf(beside, size, "%.*s/%s", (int)(name - own), own, other) >= (int)size) {
        return false;
    }
    return is_kind(beside, true);
}

/* php.ini: in the folders of PHPRC, or that file; then in this one. */
static void choose_php_ini(const char *folder)
{
    const char *given = getenv("PHPRC");
    int len;

    if (!given || !*given) {
        len = snprintf(search, sizeof(search), "%s", folder);
    } else if (is_kind(given, false)) {
        len = snprintf(search, sizeof(search), "%s", given);
    } else {
        len = snprintf(search, sizeof(search), "%s:%s", given, folder);
    }
    if (len < (int)sizeof(search)) {
        sapi_module.php_ini_path_override = search;
    }
}

/* conf.d: that of this folder, which is also meant by an empty one in a list of folders. */
static void choose_scanned(const char *folder, const char *below)
{
    const char *given = getenv(SCANNED);
    size_t len = (size_t)snprintf(scanned, sizeof(scanned), SCANNED "=");

    if (given && !*given) {
        return; /* none at all */
    }
    for (const char *at = given ? given : "", *end;; at = end + 1) {
        end = strchrnul(at, ':');
        char *rest = scanned + len;
        const size_t room = sizeof(scanned) - len;
        len += (size_t)(end == at ? snprintf(rest, room, "%s%s", folder, below)
                                  : snprintf(rest, room, "%.*s", (int)(end - at), at));
        if (len + 2 > sizeof(scanned)) {
            return;
        }
        if (!*end) {
            break;
        }
        scanned[len++] = ':';
    }
    scanned_before = given ? strdup(given) : NULL;
    is_scanned_ours = putenv(scanned) == 0;
}

void ini_files_choose(HashTable *defaults)
{
    const char *own = constant("PHP_CONFIG_FILE_PATH");
    const char *own_scanned = constant("PHP_CONFIG_FILE_SCAN_DIR");
    const size_t len = strlen(own);
    const bool is_below = strncmp(own_scanned, own, len) == 0;
    char beside[PATH_MAX];

    (void)defaults;
    if (!find_beside(beside, sizeof(beside), own, shim.config->ini_of)) {
        return;
    }
    if (!shim.config->ini_file && !shim.config->no_ini) {
        choose_php_ini(beside);
    }
    if (is_below) {
        choose_scanned(beside, own_scanned + len);
    }
}

void ini_files_chosen(void)
{
    if (!is_scanned_ours) {
        return;
    }
    if (scanned_before) {
        setenv(SCANNED, scanned_before, 1);
    } else {
        unsetenv(SCANNED);
    }
    free(scanned_before);
    is_scanned_ours = false;
}
