/* What extensions and the libraries behind them remember for the process, in classic mode.
 *
 * Each function of PHP that leaves something there has a row: what it leaves is put back, or the
 * worker is replaced after the response and the error log says why. The handlers of these functions
 * are replaced, of those alone that this PHP has, so a request that calls none of them pays
 * nothing. A few settings can be changed in too many ways, with SQL for example: those are compared
 * after each request, in memory, and only if the library is loaded.
 */
#include <dlfcn.h>
#include <syslog.h>

#include "ground/libraries.h"
#include "ground/locale.h"
#include "ground/override.h"
#include "ground/state.h"
#include "ground/taint.h"
#include "ground/text_domains.h"

/* ---- what replaces the worker ---- */

/* CURLOPT_SSLENGINE and CURLOPT_SSLENGINE_DEFAULT: libcurl's headers need not be here. */
enum { CURL_SSL_ENGINE = 10089, CURL_SSL_ENGINE_DEFAULT = 90 };

static int always(zend_execute_data *call)
{
    (void)call;
    return 1;
}

static int without_connection(zend_execute_data *call)
{
    return ZEND_CALL_NUM_ARGS(call) > 0 && Z_TYPE_P(ZEND_CALL_ARG(call, 1)) == IS_NULL;
}

static int with_a_value(zend_execute_data *call)
{
    return ZEND_CALL_NUM_ARGS(call) > 1;
}

/* uopz_flags(class, function, flags); without them it only returns them. */
static int with_flags(zend_execute_data *call)
{
    return ZEND_CALL_NUM_ARGS(call) > 2 && Z_TYPE_P(ZEND_CALL_ARG(call, 3)) == IS_LONG;
}

/* imap_open(): DISABLE_AUTHENTICATOR holds for all later connections. */
static int with_options(zend_execute_data *call)
{
    return ZEND_CALL_NUM_ARGS(call) > 5;
}

/* What a library reads when it is first used, it reads in the directory of the user and in the
 * current one: .ldaprc, .imaprc. */
static int is_elsewhere(void)
{
    return serving->changes.environment || serving->changes.directory;
}

static int is_first_of_ldap(zend_execute_data *call)
{
    static bool was_used;
    const bool is_first = !was_used;

    (void)call;
    was_used = true;
    return is_first && is_elsewhere();
}

static int is_first_of_imap(zend_execute_data *call)
{
    static bool was_used;
    const bool is_first = !was_used;

    was_used = true;
    return with_options(call) || (is_first && is_elsewhere());
}

/* With OpenSSL as its library, curl sets it in OpenSSL itself: the engine is loaded for all that
 * the process encrypts, and used for it. */
static int names_engine(zend_long option)
{
    return option == CURL_SSL_ENGINE || option == CURL_SSL_ENGINE_DEFAULT;
}

static int of_an_engine(zend_execute_data *call)
{
    return ZEND_CALL_NUM_ARGS(call) > 1 && Z_TYPE_P(ZEND_CALL_ARG(call, 2)) < IS_ARRAY &&
           names_engine(zval_get_long(ZEND_CALL_ARG(call, 2)));
}

static int with_an_engine(zend_execute_data *call)
{
    const zval *options = ZEND_CALL_NUM_ARGS(call) > 1 ? ZEND_CALL_ARG(call, 2) : NULL;

    return options && Z_TYPE_P(options) == IS_ARRAY &&
           (zend_hash_index_exists(Z_ARR_P(options), CURL_SSL_ENGINE) ||
            zend_hash_index_exists(Z_ARR_P(options), CURL_SSL_ENGINE_DEFAULT));
}

/* Libraries read these when they are first used, and never again: the variable is put back after
 * the request, what they made of it is not. The names begin so. */
static int for_a_library(zend_execute_data *call)
{
    static const char *const names[] = {
        "FONTCONFIG_", "GCONV_PATH", "GNUTLS_", "ICU_", "LDAP", "LOCALDOMAIN", "LOCPATH", "MAGICK_",
        "ODBC", "OPENSSL_", "OUTPUT_CHARSET", "P11_KIT_", "RES_", "SASL_",
        "SSLKEYLOGFILE", /* GnuTLS would write the keys of all later visitors there */
        "XML_CATALOG"};
    const zval *text = ZEND_CALL_NUM_ARGS(call) > 0 ? ZEND_CALL_ARG(call, 1) : NULL;

    for (size_t i = 0; text && Z_TYPE_P(text) == IS_STRING && i < sizeof(names) / sizeof(*names);
         i++) {
        if (strncmp(Z_STRVAL_P(text), names[i], strlen(names[i])) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Function, when it leaves something, why the worker is replaced. */
#define REPLACING(ROW)                                                                           \
    ROW(ldap_set_option, without_connection, "a request set an LDAP option for all connections") \
    ROW(ldap_connect, is_first_of_ldap, "a request used LDAP first, with files of its own")      \
    ROW(imap_open, is_first_of_imap, "a request set IMAP options for all connections")           \
    ROW(snmp_set_enum_print, always, "a request set how SNMP prints values")                     \
    ROW(snmp_set_oid_output_format, always, "a request set how SNMP prints values")              \
    ROW(snmp_set_oid_numeric_print, always, "a request set how SNMP prints values")              \
    ROW(snmp_read_mib, always, "a request read an SNMP MIB")                                     \
    ROW(readline_info, with_a_value, "a request set a variable of readline")                     \
    ROW(curl_setopt, of_an_engine, "a request set an engine of OpenSSL")                         \
    ROW(curl_setopt_array, with_an_engine, "a request set an engine of OpenSSL")                 \
    ROW(uopz_redefine, always, "a request redefined a constant by uopz")                         \
    ROW(uopz_undefine, always, "a request removed a constant by uopz")                           \
    ROW(uopz_flags, with_flags, "a request changed a class or function by uopz")                 \
    ROW(putenv, for_a_library,                                                                   \
        "a request set a variable of the environment that a library reads only once")

#define REPLACE(function, leaves, reason)                     \
    static zif_handler real_##function;                       \
    static ZEND_NAMED_FUNCTION(replace_for_##function)        \
    {                                                         \
        if (leaves(execute_data)) {                           \
            taint_note(reason);                         \
        }                                                     \
        real_##function(INTERNAL_FUNCTION_PARAM_PASSTHRU);    \
    }

REPLACING(REPLACE)
/* \pcov\start(), which no function of C can be called */
REPLACE(pcov_start, always, "a request started to measure coverage by pcov")

/* ---- settings that functions of PHP return and set ---- */

enum { NO_KEY = 0 };

static const struct {
    const char *get, *set;
    zend_long key; /* the first argument of both */
} settings[] = {
    {"mb_regex_set_options", "mb_regex_set_options", NO_KEY},
    {"snmp_get_quick_print", "snmp_set_quick_print", NO_KEY},
    {"snmp_get_valueretrieval", "snmp_set_valueretrieval", NO_KEY},
    {"imap_timeout", "imap_timeout", 1}, /* to open, to read, to write, to close */
    {"imap_timeout", "imap_timeout", 2},
    {"imap_timeout", "imap_timeout", 3},
    {"imap_timeout", "imap_timeout", 4},
};
enum { SETTINGS = sizeof(settings) / sizeof(*settings) };

static zval learned[SETTINGS]; /* what they were before the first request */

/* The result is the caller's to free. */
static zval call(const char *name, zend_long key, const zval *value)
{
    zend_function *f = override_find(NULL, name);
    zval result, arguments[2];
    uint32_t count = 0;

    ZVAL_UNDEF(&result);
    if (key != NO_KEY) {
        ZVAL_LONG(&arguments[count++], key);
    }
    if (value) {
        ZVAL_COPY(&arguments[count++], value);
    }
    if (f) {
        zend_call_known_function(f, NULL, NULL, &result, count, arguments, NULL);
    }
    if (value) {
        zval_ptr_dtor(&arguments[count - 1]);
    }
    return result;
}

static void learn_settings(void)
{
    for (size_t i = 0; i < SETTINGS; i++) {
        zval now = call(settings[i].get, settings[i].key, NULL);
        if (Z_TYPE(now) == IS_STRING) {
            /* It outlives requests, whose strings do not. */
            ZVAL_STR(&learned[i], zend_string_init(Z_STRVAL(now), Z_STRLEN(now), 1));
            zval_ptr_dtor(&now);
        } else {
            ZVAL_COPY_VALUE(&learned[i], &now);
        }
    }
}

static void put_back_settings(void)
{
    zval result;

    for (size_t i = 0; serving->changes.settings && i < SETTINGS; i++) {
        if (Z_TYPE(learned[i]) != IS_UNDEF) {
            result = call(settings[i].set, settings[i].key, &learned[i]);
            zval_ptr_dtor(&result);
        }
    }
    if (serving->changes.history) {
        result = call("readline_clear_history", NO_KEY, NULL);
        zval_ptr_dtor(&result);
    }
    if (serving->changes.log) {
        result = call("closelog", NO_KEY, NULL);
        zval_ptr_dtor(&result);
        openlog(NULL, 0, LOG_USER);
        closelog();
    }
    serving->changes.settings = serving->changes.history = serving->changes.log = 0;
}

#define NOTICE(function, note)                                \
    static zif_handler real_##function;                       \
    static ZEND_NAMED_FUNCTION(notice_##function)             \
    {                                                         \
        serving->changes.note = 1;                            \
        real_##function(INTERNAL_FUNCTION_PARAM_PASSTHRU);    \
    }

#define NOTICED(ROW)                        \
    ROW(mb_regex_set_options, settings)     \
    ROW(snmp_set_quick_print, settings)     \
    ROW(snmp_set_valueretrieval, settings)  \
    ROW(imap_timeout, settings)             \
    ROW(chdir, directory)                   \
    ROW(openlog, log)                       \
    ROW(readline, history)                  \
    ROW(readline_add_history, history)      \
    ROW(readline_read_history, history)

NOTICED(NOTICE)

/* ---- names of OpenSSL's, which a file of settings adds to ---- */

static int (*next_openssl_name)(int);

#define LOOK_AFTER(function)                                  \
    static zif_handler real_##function;                       \
    static ZEND_NAMED_FUNCTION(look_after_##function)         \
    {                                                         \
        const int before = next_openssl_name(0);              \
        real_##function(INTERNAL_FUNCTION_PARAM_PASSTHRU);    \
        if (next_openssl_name(0) != before) {                 \
            taint_note("a request told OpenSSL names of its own"); \
        }                                                     \
    }

#define NAMING(ROW)        \
    ROW(openssl_csr_new)   \
    ROW(openssl_csr_sign)  \
    ROW(openssl_pkey_new)  \
    ROW(openssl_pkey_export) \
    ROW(openssl_pkey_export_to_file)

NAMING(LOOK_AFTER)

/* ---- SQLite: limits of its memory, for all connections ---- */

static struct {
    int64_t (*soft_limit)(int64_t), (*hard_limit)(int64_t);
    char **directory;
    void (*free)(void *);
    int64_t soft, hard;
} sqlite;

static void learn_sqlite(void)
{
    *(void **)&sqlite.soft_limit = dlsym(RTLD_DEFAULT, "sqlite3_soft_heap_limit64");
    *(void **)&sqlite.hard_limit = dlsym(RTLD_DEFAULT, "sqlite3_hard_heap_limit64");
    *(void **)&sqlite.directory = dlsym(RTLD_DEFAULT, "sqlite3_temp_directory");
    *(void **)&sqlite.free = dlsym(RTLD_DEFAULT, "sqlite3_free");
    /* This also sets up SQLite, so that no variable of a request says where its temporary files
     * are. */
    if (sqlite.soft_limit && sqlite.hard_limit) {
        sqlite.soft = sqlite.soft_limit(-1);
        sqlite.hard = sqlite.hard_limit(-1);
    }
}

static void put_back_sqlite(void)
{
    if (sqlite.soft_limit && sqlite.hard_limit &&
        (sqlite.soft_limit(-1) != sqlite.soft || sqlite.hard_limit(-1) != sqlite.hard)) {
        sqlite.hard_limit(sqlite.hard);
        sqlite.soft_limit(sqlite.soft);
    }
    if (sqlite.directory && *sqlite.directory && sqlite.free) {
        sqlite.free(*sqlite.directory);
        *sqlite.directory = NULL;
    }
}

/* ---- ImageMagick: limits, and the registry, where `mpr:` images are too ---- */

enum { MAGICK_LIMITS = 12 }; /* numbers of its kinds of resources, from 1 on */

static struct {
    uint64_t (*limit)(int);
    int (*set_limit)(int, uint64_t);
    void (*rewind)(void);
    char *(*next)(void);
    int (*drop)(const char *);
    uint64_t limits[MAGICK_LIMITS];
    int was_empty;
} magick;

static zif_handler real_set_resource_limit;

static ZEND_NAMED_FUNCTION(notice_set_resource_limit)
{
    serving->changes.limits = 1;
    real_set_resource_limit(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static const char *first_of_registry(void)
{
    magick.rewind();
    return magick.next();
}

static void learn_magick(void)
{
    *(void **)&magick.limit = dlsym(RTLD_DEFAULT, "GetMagickResourceLimit");
    *(void **)&magick.set_limit = dlsym(RTLD_DEFAULT, "SetMagickResourceLimit");
    *(void **)&magick.rewind = dlsym(RTLD_DEFAULT, "ResetImageRegistryIterator");
    *(void **)&magick.next = dlsym(RTLD_DEFAULT, "GetNextImageRegistry");
    *(void **)&magick.drop = dlsym(RTLD_DEFAULT, "DeleteImageRegistry");
    if (!magick.limit || !magick.set_limit || !magick.rewind || !magick.next || !magick.drop) {
        magick.drop = NULL;
        return;
    }
    for (int kind = 1; kind < MAGICK_LIMITS; kind++) {
        magick.limits[kind] = magick.limit(kind);
    }
    magick.was_empty = first_of_registry() == NULL;
}

static void put_back_magick(void)
{
    const char *key;

    if (!magick.drop) {
        return;
    }
    for (int kind = 1; serving->changes.limits && kind < MAGICK_LIMITS; kind++) {
        magick.set_limit(kind, magick.limits[kind]);
    }
    serving->changes.limits = 0;
    while (magick.was_empty && (key = first_of_registry())) {
        char *name = strdup(key); /* the registry frees its own */
        int is_gone = name && magick.drop(name);
        free(name);
        if (!is_gone) {
            taint_note("a request left something in ImageMagick's registry");
            return;
        }
    }
}

/* ---- numbers and lists of errors ---- */

/* In these extensions the globals begin with what they remember, in all versions of PHP: two with
 * the number of the last error, one with a pointer to a list of errors, NULL before the first. */
static int *posix_error, *sockets_error;
static void **openssl_errors;
/* those that PHP has not taken over into its list */
static unsigned long (*peek_openssl_error)(void);

static void *globals_of(const char *extension)
{
    zend_module_entry *module =
        zend_hash_str_find_ptr(&module_registry, extension, strlen(extension));
    return module ? module->globals_ptr : NULL;
}

static void (*clear_rrd_error)(void); /* of librrd; it names files */

static void learn_errors(void)
{
    posix_error = globals_of("posix");
    sockets_error = globals_of("sockets");
    openssl_errors = globals_of("openssl");
    *(void **)&clear_rrd_error = dlsym(RTLD_DEFAULT, "rrd_clear_error");
    *(void **)&peek_openssl_error = openssl_errors ? dlsym(RTLD_DEFAULT, "ERR_peek_error") : NULL;
}

static void put_back_errors(void)
{
    if (posix_error) {
        *posix_error = 0;
    }
    if (sockets_error) {
        *sockets_error = 0;
    }
    if (clear_rrd_error) {
        clear_rrd_error();
    }
    if (openssl_errors && (*openssl_errors || (peek_openssl_error && peek_openssl_error() != 0))) {
        zval error;
        do {
            error = call("openssl_error_string", NO_KEY, NULL);
            zval_ptr_dtor(&error);
        } while (Z_TYPE(error) == IS_STRING);
    }
}

/* ---- mysqlnd: what it counts for all connections ---- */

static struct mysql_statistics *const *mysql_statistics;

static void learn_mysql(void)
{
    *(const void **)&mysql_statistics = dlsym(RTLD_DEFAULT, "mysqlnd_global_stats");
}

static void put_back_mysql(void)
{
    if (mysql_statistics && *mysql_statistics) {
        memset((*mysql_statistics)->values, 0,
               (*mysql_statistics)->count * sizeof(*(*mysql_statistics)->values));
    }
}

/* ---- all together ---- */

void libraries_learn(void)
{
    locale_learn();
    learn_settings();
    learn_errors();
    learn_sqlite();
    learn_magick();
    learn_mysql();
#define STAND_BEFORE_REPLACING(function, leaves, reason) \
    override_function(NULL, #function, &real_##function, replace_for_##function);
#define STAND_BEFORE_NOTICED(function, note) \
    override_function(NULL, #function, &real_##function, notice_##function);
    *(void **)&next_openssl_name = dlsym(RTLD_DEFAULT, "OBJ_new_nid");
#define STAND_BEFORE_NAMING(function) \
    override_function(NULL, #function, &real_##function, look_after_##function);
    if (next_openssl_name) {
        NAMING(STAND_BEFORE_NAMING)
    }
    REPLACING(STAND_BEFORE_REPLACING)
    NOTICED(STAND_BEFORE_NOTICED)
    override_function(NULL, "pcov\\start", &real_pcov_start, replace_for_pcov_start);
    text_domains_learn();
    override_function("imagick", "setresourcelimit", &real_set_resource_limit,
                           notice_set_resource_limit);
}

void libraries_put_back(void)
{
    serving->changes.directory = 0;
    locale_put_back();
    text_domains_put_back();
    put_back_sqlite();
    put_back_magick();
    put_back_mysql();
}

void libraries_begin(void)
{
    put_back_errors();
    put_back_settings();
}
