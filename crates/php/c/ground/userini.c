/* .user.ini files and the [HOST=] and [PATH=] sections of php.ini, as php-fpm reads them. */
#include <string.h>
#include <time.h>

#include "ground/userini.h"
#include "ground/state.h"

/* What the .user.ini files on the way to one directory say. Kept for user_ini.cache_ttl seconds. */
typedef struct {
    time_t expires;
    HashTable settings;
} entry;

static HashTable directories;
static int ready;

static void drop_entry(zval *value)
{
    entry *e = Z_PTR_P(value);
    zend_hash_destroy(&e->settings);
    free(e);
}

/* Reads the files from the document root down to the directory; only the directory's when it lies
 * elsewhere. */
static void read_files(entry *e, char *directory, size_t len, const shim_text *root)
{
    size_t from = root->len;

    while (from > 0 && root->at[from - 1] == '/') {
        from--;
    }
    if (len < from || memcmp(directory, root->at, from) != 0 ||
        (directory[from] != '/' && directory[from] != 0)) {
        php_parse_user_ini_file(directory, PG(user_ini_filename), &e->settings);
        return;
    }
    for (size_t i = from; i <= len; i++) {
        if (directory[i] == '/' || directory[i] == 0) {
            char kept = directory[i];
            directory[i] = 0;
            php_parse_user_ini_file(directory, PG(user_ini_filename), &e->settings);
            directory[i] = kept;
        }
    }
}

static void apply_user_files(char *directory, size_t len, const shim_text *root)
{
    time_t now = (time_t)sapi_get_request_time();
    zend_ulong hash = zend_hash_func(directory, len);
    entry *e;

    if (shim.lasting && shim.lasting->without_settings[hash % LASTING_PLACES].hash == hash &&
        now <= shim.lasting->without_settings[hash % LASTING_PLACES].until) {
        return;
    }
    if (!ready) {
        zend_hash_init(&directories, 8, NULL, drop_entry, 1);
        ready = 1;
    }
    e = zend_hash_str_find_ptr(&directories, directory, len);
    if (!e) {
        e = calloc(1, sizeof(*e));
        if (!e) {
            return;
        }
        zend_hash_init(&e->settings, 8, NULL, config_zval_dtor, 1);
        zend_hash_str_add_ptr(&directories, directory, len, e);
    }
    if (now > e->expires) {
        zend_hash_clean(&e->settings);
        read_files(e, directory, len, root);
        e->expires = now + PG(user_ini_cache_ttl);
    }
    /* A roll-back forgets what was read. That there was nothing, the usual case, is remembered
     * elsewhere. */
    if (shim.lasting && zend_hash_num_elements(&e->settings) == 0) {
        shim.lasting->without_settings[hash % LASTING_PLACES] = (lasting_place){hash, e->expires};
    }
    php_ini_activate_config(&e->settings, PHP_INI_PERDIR, PHP_INI_STAGE_HTACCESS);
}

void userini_activate(const shim_request *request)
{
    const shim_text *file = &request->field[SHIM_SCRIPT_FILENAME];
    const shim_text *name = &request->field[SHIM_SERVER_NAME];
    char directory[MAXPATHLEN];
    const char *slash;
    size_t len;

    if (php_ini_has_per_host_config()) {
        char *lower = estrndup(name->at, name->len);
        zend_str_tolower(lower, name->len);
        php_ini_activate_per_host_config(lower, name->len);
        efree(lower);
    }
    slash = zend_memrchr(file->at, '/', file->len);
    len = slash ? (size_t)(slash - file->at) : 0;
    if (len == 0 || len >= sizeof(directory) - 1) {
        return;
    }
    memcpy(directory, file->at, len);
    directory[len] = 0;
    if (php_ini_has_per_dir_config()) {
        char with_slash[MAXPATHLEN + 1];
        memcpy(with_slash, directory, len);
        with_slash[len] = '/';
        with_slash[len + 1] = 0;
        php_ini_activate_per_dir_config(with_slash, len + 1);
    }
    if (PG(user_ini_filename) && *PG(user_ini_filename) &&
        request->field[SHIM_DOCUMENT_ROOT].len > 0) {
        apply_user_files(directory, len, &request->field[SHIM_DOCUMENT_ROOT]);
    }
}
