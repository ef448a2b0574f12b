/* What PHP's request shutdown leaves in the process, and classic mode does not: each request finds what the first one found.
 *
 * A change is noted where it is made, in front of libc's functions (interpose.c) and of PHP's, so that a
 * request which changes nothing costs no system call. What cannot be put back replaces the process after the response.
 *
 * Threads, mappings and descriptors are different: extensions keep them from request to request on purpose. They are looked
 * at only after a request that has called C by itself, with FFI.
 */
#include <dlfcn.h>
#include <libintl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "image.h"
#include "parts.h"

static int is_learned;

/* ---- environment and text domain ---- */

static int environment_changed, domain_changed;

static struct {
    char **learned, **used; /* libc writes to the one that is used */
    size_t bytes;
    char *domain;
} base;

void classic_note_environment(void)
{
    environment_changed = 1;
}

void classic_note_text_domain(void)
{
    domain_changed = 1;
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
    environment_changed = domain_changed = 0;
}

static void put_back_environment(void)
{
    if (environment_changed && base.learned && base.used) {
        const char *zone = getenv("TZ");
        memcpy(base.used, base.learned, base.bytes);
        environ = base.used;
        if (getenv("TZ") != zone) {
            tzset();
        }
    }
    if (domain_changed && base.domain) {
        textdomain(base.domain);
    }
    environment_changed = domain_changed = 0;
}

/* ---- what extensions remember ---- */

static int regex_options_changed;
static zend_string *regex_options;

static zend_function *find_function(const char *name)
{
    return zend_hash_str_find_ptr(CG(function_table), name, strlen(name));
}

/* The result is the caller's to free. */
static zval call(const char *name, zval *argument)
{
    zend_function *f = find_function(name);
    zval result;

    ZVAL_UNDEF(&result);
    if (f) {
        zend_call_known_function(f, NULL, NULL, &result, argument ? 1 : 0, argument, NULL);
    }
    return result;
}

/* In these extensions the globals begin with what they remember, in all versions of PHP: two with the number of the last
 * error, one with a pointer to a list of errors, NULL before the first. */
static int *posix_error, *sockets_error;
static void **openssl_errors;
static unsigned long (*peek_openssl_error)(void); /* those that PHP has not taken over into its list */

static void *globals_of(const char *extension)
{
    zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, extension, strlen(extension));
    return module ? module->globals_ptr : NULL;
}

static void learn_extensions(void)
{
    zval options = call("mb_regex_set_options", NULL);

    /* It outlives requests, whose strings do not. */
    regex_options = Z_TYPE(options) == IS_STRING ? zend_string_init(Z_STRVAL(options), Z_STRLEN(options), 1) : NULL;
    zval_ptr_dtor(&options);
    posix_error = globals_of("posix");
    sockets_error = globals_of("sockets");
    openssl_errors = globals_of("openssl");
    *(void **)&peek_openssl_error = openssl_errors ? dlsym(RTLD_DEFAULT, "ERR_peek_error") : NULL;
}

static void put_back_extensions(void)
{
    if (posix_error) {
        *posix_error = 0;
    }
    if (sockets_error) {
        *sockets_error = 0;
    }
    if (openssl_errors && (*openssl_errors || (peek_openssl_error && peek_openssl_error() != 0))) {
        zval error;
        do {
            error = call("openssl_error_string", NULL);
            zval_ptr_dtor(&error);
        } while (Z_TYPE(error) == IS_STRING);
    }
    if (regex_options_changed) {
        zval options, before;
        ZVAL_STR_COPY(&options, regex_options);
        before = call("mb_regex_set_options", &options);
        zval_ptr_dtor(&before);
        zval_ptr_dtor(&options);
        regex_options_changed = 0;
    }
}

/* ---- code in C that a request calls ---- */

enum { MOST_FOREIGN = 16, MOST_DESCRIPTORS = 1024 };

static int called_c;
static unsigned char known[MOST_DESCRIPTORS / 8]; /* descriptors that were open before the first request */
static const void *foreign[MOST_FOREIGN];         /* files and shared memory that were mapped since C was called */
static size_t foreign_count;

static void note_mapping(const void *at, int is_new)
{
    if (is_new && called_c) {
        if (foreign_count == MOST_FOREIGN) {
            world_note_doubt("a request made too many memory mappings");
        } else {
            foreign[foreign_count++] = at;
        }
    }
    for (size_t i = 0; !is_new && i < foreign_count; i++) {
        if (foreign[i] == at) {
            foreign[i] = foreign[--foreign_count];
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
    if (fd < MOST_DESCRIPTORS && !(known[fd / 8] >> fd % 8 & 1) && fstat(fd, &st) == 0 && !S_ISSOCK(st.st_mode)) {
        world_note_doubt("a request that called C left a file open");
    }
}

static void look_closely(void)
{
    world_look_for_threads();
    world_each_descriptor(look_at_descriptor, NULL);
    if (foreign_count > 0) {
        world_note_doubt("a request that called C left a memory mapping");
    }
    called_c = 0;
    foreign_count = 0;
}

/* Functions of PHP that we have to know of when they are called. */
#define NOTICE(function, note)                                \
    static zif_handler real_##function;                       \
    static ZEND_NAMED_FUNCTION(notice_##function)             \
    {                                                         \
        note = 1;                                             \
        real_##function(INTERNAL_FUNCTION_PARAM_PASSTHRU);    \
    }

NOTICE(cdef, called_c)
NOTICE(load, called_c)
NOTICE(scope, called_c)
NOTICE(mb_regex_set_options, regex_options_changed)

static void stand_before(zend_function *f, zif_handler *real, zif_handler ours)
{
    if (f && f->type == ZEND_INTERNAL_FUNCTION) {
        *real = f->internal_function.handler;
        f->internal_function.handler = ours;
    }
}

static void notice_calls(void)
{
    zend_class_entry *ffi = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("ffi"));

    if (ffi) {
        stand_before(zend_hash_str_find_ptr(&ffi->function_table, ZEND_STRL("cdef")), &real_cdef, notice_cdef);
        stand_before(zend_hash_str_find_ptr(&ffi->function_table, ZEND_STRL("load")), &real_load, notice_load);
        stand_before(zend_hash_str_find_ptr(&ffi->function_table, ZEND_STRL("scope")), &real_scope, notice_scope);
    }
    if (regex_options) {
        stand_before(find_function("mb_regex_set_options"), &real_mb_regex_set_options, notice_mb_regex_set_options);
    }
}

/* ---- around a request ---- */

void classic_begin(void)
{
    if (is_learned) {
        put_back_extensions();
        return;
    }
    is_learned = 1;
    world_watch();
    learn_environment();
    learn_extensions();
    world_each_descriptor(note_known, NULL);
    image_watch_mappings(note_mapping);
    notice_calls();
}

void classic_end(void)
{
    const char *doubt;

    if (!is_learned) {
        return;
    }
    if (called_c) {
        look_closely();
    }
    world_put_back();
    put_back_environment();
    doubt = world_doubt();
    if (doubt) {
        rust_leave(doubt);
    }
}
