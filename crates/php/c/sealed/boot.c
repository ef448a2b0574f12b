/* What a boot script can arrange for the requests that follow it: a file that is run in the place
 * of another one, a file that makes the image outdated when it changes, and a request that is
 * better served without the image.
 *
 * All of it is state of the image: a request finds it as the boot left it. */
#include <limits.h>

#include "sealed/boot.h"
#include "ground/sapi.h"
#include "ground/state.h"
#include "sealed/dependencies.h"
#include "sealed/sealed.h"

/* ---- files run in the place of others ---- */

/* resolved path of the file => path of what is run instead; NULL: none */
static HashTable *substitutes;
static zend_op_array *(*compile_original)(zend_file_handle *, int);

static zend_string *substitute_of(zend_string *path)
{
    zend_string *substitute = zend_hash_find_ptr(substitutes, path);
    char resolved[PATH_MAX];

    if (!substitute && VCWD_REALPATH(ZSTR_VAL(path), resolved)) {
        substitute = zend_hash_str_find_ptr(substitutes, resolved, strlen(resolved));
    }
    return substitute;
}

/* In front of opcache's, which thus caches the substitute under its own name. */
static zend_op_array *compile_substitute(zend_file_handle *file, int type)
{
    zend_string *path = file->opened_path ? file->opened_path : file->filename;
    zend_string *substitute = path ? substitute_of(path) : NULL;
    zend_file_handle other;
    zend_op_array *compiled;

    if (!substitute) {
        return compile_original(file, type);
    }
    zend_stream_init_filename_ex(&other, substitute);
    compiled = compile_original(&other, type);
    zend_destroy_file_handle(&other);
    return compiled;
}

ZEND_FUNCTION(tokamak_substitute_file)
{
    zend_string *file, *by;
    char resolved[PATH_MAX];

    ZEND_PARSE_PARAMETERS_START(2, 2)
        Z_PARAM_PATH_STR(file)
        Z_PARAM_PATH_STR(by)
    ZEND_PARSE_PARAMETERS_END();

    if (serving->stage != STAGE_BOOT || !VCWD_REALPATH(ZSTR_VAL(file), resolved)) {
        RETURN_FALSE;
    }
    if (!substitutes) {
        ALLOC_HASHTABLE(substitutes);
        zend_hash_init(substitutes, 8, NULL, NULL, 0);
        compile_original = zend_compile_file;
        zend_compile_file = compile_substitute;
    }
    zend_hash_str_update_ptr(substitutes, resolved, strlen(resolved), zend_string_copy(by));
    RETURN_TRUE;
}

/* ---- files that the image depends on ---- */

ZEND_FUNCTION(tokamak_watch_file)
{
    zend_string *path;

    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_PATH_STR(path)
    ZEND_PARSE_PARAMETERS_END();

    if (serving->stage != STAGE_BOOT) {
        RETURN_FALSE;
    }
    dependencies_add(ZSTR_VAL(path));
    RETURN_TRUE;
}

/* ---- requests on behalf of another process ---- */

/* The front sees a status that no response has, and asks the fallback's workers. */
ZEND_FUNCTION(tokamak_decline)
{
    /* A request to warm up with runs in a copy of the process, and may decline like any other. */
    const int is_warm_up = shim.sealed && !shim.rolls_back;

    ZEND_PARSE_PARAMETERS_NONE();
    if (serving->stage != STAGE_REQUEST || (shim.is_copy && !is_warm_up) || SG(headers_sent)) {
        RETURN_FALSE;
    }
    php_output_discard_all();
    SG(headers_sent) = 1;
    SG(request_info).no_headers = 1;
    rust_head(0 /* tokamak_sys::queue::DECLINED */, NULL, 0, 0);
    sapi_end_response();
    zend_throw_unwind_exit();
}
