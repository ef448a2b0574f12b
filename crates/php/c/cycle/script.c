/* Runs the script of a request, or says as php-fpm does why it cannot be run. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cycle/script.h"
#include "ground/gateway.h"
#include "ground/state.h"
#include "process/directory.h"
#include "process/opcache.h"

/* What is known of the file at a path, and until when that is believed.
 *
 * php-fpm opens and stats the file at each request although opcache has it. Here a file that was
 * fine is believed for a second. Consequence: for up to that second a deleted script is still
 * served from opcache, which by default looks at the file every two seconds itself. */
typedef struct {
    lasting_place *place;
    lasting_place fresh; /* what the place holds once the file is known */
} knowledge;

static knowledge knowledge_of(const char *path, size_t len)
{
    static lasting_place own[LASTING_PLACES];
    struct timespec now;
    zend_ulong hash = zend_hash_func(path, len);

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (knowledge){&(shim.lasting ? shim.lasting->scripts : own)[hash % LASTING_PLACES],
                       {hash, now.tv_sec}};
}

static int is_known(const knowledge *k)
{
    return k->place->hash == k->fresh.hash && k->place->until == k->fresh.until;
}

/* PHP remembers for two minutes where a path leads. When a link to a release leads elsewhere and
 * the old release is gone, no script of it could be opened until then. */
static void forget_moved_paths(const shim_text *path, const struct stat *st)
{
    const realpath_cache_bucket *known = realpath_cache_lookup(path->at, path->len, time(NULL));
    struct stat behind;
    char line[1200];
    int len;

    if (!known || (stat(known->realpath, &behind) == 0 && behind.st_ino == st->st_ino &&
                   behind.st_dev == st->st_dev)) {
        return;
    }
    len = snprintf(line, sizeof(line),
                   "%.500s led to %.500s, which is gone or another file: what PHP remembered of "
                   "paths is forgotten",
                   path->at, known->realpath);
    rust_log(SHIM_WARN, line, (size_t)len);
    realpath_cache_clean();
}

/* Says whether the script may be run: 0, or the status that php-fpm answers with. */
static int script_status(const shim_text *path)
{
    knowledge known;
    struct stat st;
    int fd, found;

    if (path->len == 0 || strlen(path->at) != path->len) {
        return 404;
    }
    known = knowledge_of(path->at, path->len);
    if (is_known(&known)) {
        return 0;
    }
    fd = open(path->at, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd == -1) {
        return rust_unopened_status(errno);
    }
    found = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    close(fd);
    if (!found) {
        return 404;
    }
    forget_moved_paths(path, &st);
    *known.place = known.fresh;
    return 0;
}

int shim_file_kind(const char *path, size_t len)
{
    char text[MAXPATHLEN];
    knowledge known;
    struct stat st;

    if (len == 0 || len >= sizeof(text) || memchr(path, 0, len)) {
        return 0;
    }
    known = knowledge_of(path, len);
    if (is_known(&known)) {
        return 1;
    }
    memcpy(text, path, len);
    text[len] = 0;
    if (stat(text, &st) != 0) {
        return 0;
    }
    return S_ISREG(st.st_mode) ? 1 : 2;
}

static void refuse(int status, const shim_text *path)
{
    char line[1200];
    int len, error = errno;

    SG(sapi_headers).http_response_code = status;
    if (status >= 500) {
        PUTS("The script cannot be opened.\n");
        len = snprintf(line, sizeof(line), "Unable to open primary script: %.1000s (%s)", path->at,
                       strerror(error));
    } else if (status == 403) {
        PUTS("Access denied.\n");
        len = snprintf(line, sizeof(line),
                       "Unable to open primary script: %.1000s (Permission denied)", path->at);
    } else {
        PUTS("File not found.\n");
        len = snprintf(line, sizeof(line), "Primary script unknown: %.1000s", path->at);
    }
    rust_log(SHIM_ERROR, line, len < (int)sizeof(line) ? (size_t)len : sizeof(line) - 1);
}

void script_execute(const char *path, size_t len)
{
    zend_file_handle file;

    opcache_note_request();
    directory_enter_that_of(path, len);
    zend_stream_init_filename(&file, path);
    file.primary_script = 1;
    EG(exit_status) = 0;
    php_execute_script(&file);
    /* With opcache the handle is in no list of the engine from the second request on. */
    if (!file.in_list) {
        zend_destroy_file_handle(&file);
    }
}

/* Of a site that has no image: a setting of the site's own goes before it. */
static const char *boot_script;

void shim_boot_each_request(const char *script)
{
    boot_script = script;
}

static void execute_with_boot(const shim_text *path)
{
    char *const prepended = PG(auto_prepend_file);

    if (boot_script && !(prepended && prepended[0])) {
        PG(auto_prepend_file) = (char *)boot_script;
    }
    script_execute(path->at, path->len);
    PG(auto_prepend_file) = prepended;
}

void script_run(const shim_request *request)
{
    const shim_text *path = &request->field[SHIM_SCRIPT_FILENAME];
    int status;

    if (request->is_fastcgi && !gateway_admits(request)) {
        return;
    }
    status = script_status(path);
    if (status != 0 && request->is_fastcgi) {
        gateway_refuse(status, path);
    } else if (status != 0) {
        refuse(status, path);
    } else {
        execute_with_boot(path);
    }
    gateway_note_failure();
}
