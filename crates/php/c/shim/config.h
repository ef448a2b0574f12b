/* How a worker is set up: its settings, and its start. */
#ifndef TOKAMAK_SHIM_CONFIG_H
#define TOKAMAK_SHIM_CONFIG_H

#include "shim/text.h"

#define SHIM_VERSION 11

/* What worker mode resets between requests, as bits of shim_config.reset. */
enum {
    SHIM_RESET_INI = 1 << 0,
    SHIM_RESET_ERROR_HANDLERS = 1 << 1,
    SHIM_RESET_CWD = 1 << 2,
    SHIM_RESET_UMASK = 1 << 3,
    SHIM_RESET_LOCALE = 1 << 4,
    SHIM_RESET_TIMEZONE = 1 << 5,
    SHIM_RESET_ENCODINGS = 1 << 6,
    SHIM_RESET_ENV = 1 << 7,
    SHIM_RESET_SESSION = 1 << 8
};

/* Lives as long as the process. */
typedef struct {
    uint32_t version;
    uint32_t reset;
    const char *software;       /* SERVER_SOFTWARE */
    const char *site;           /* its name */
    const char *ini;            /* php.ini text that overrides the file; NULL: none */
    const char *const *locked;  /* settings that scripts cannot change */
    size_t locked_count;
    const char *root;           /* DOCUMENT_ROOT of a worker script */
    /* what strings of the seal report's requests contain; NULL: no report is wanted */
    const char *report;
    const char *ini_file;       /* where php.ini is; NULL: where PHP looks for it */
    const char *ini_of;         /* the SAPI whose php.ini and conf.d are read; NULL: libphp's own */
    uint32_t no_ini;            /* no php.ini */
    uint32_t extended_info;     /* scripts are compiled for debuggers */
    uint32_t concurrency;       /* requests under way at once, in async mode; 0: another mode */
    uint32_t seed;              /* for tests: requests take turns at random; 0: in order */
    uint32_t count_calls;       /* what requests call in databases and in other servers */
    uint32_t padding;
} shim_config;

/* The settings by which a request over FastCGI finds its script. */
typedef struct {
    uint32_t fix_pathinfo, discard_path;
    const char *doc_root; /* NULL: not set */
} shim_gateway;

_Static_assert(sizeof(shim_config) == 104 && sizeof(shim_gateway) == 16, "no padding in settings");

enum { SHIM_SHOW_VERSION, SHIM_SHOW_MODULES, SHIM_SHOW_INFO, SHIM_SHOW_SETTINGS };

/* Module start-up; 0 when PHP is ready. Once, in the zygote. */
int shim_start(const shim_config *config);
/* Prints versions, php.ini, extensions, opcache. After shim_start. */
void shim_info(void);
/* Prints what php-fpm does with -v, -m or -i. After shim_start. */
void shim_show(int what);
const char *shim_php_version(void);
/* expose_php, as php.ini and the settings say. After shim_start. */
int shim_exposes_php(void);
/* A worker begins: timers and signals that a fork does not bring along. */
void shim_worker_begins(int backtrace_signal);
void shim_gateway_settings(shim_gateway *gateway);
/* What stands at a path that need not end with a NUL: 0 nothing, 1 a file, 2 something else. */
int shim_file_kind(const char *path, size_t len);

#endif
