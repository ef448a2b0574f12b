/* All differences between PHP versions, and nothing else: no other file tests PHP_VERSION_ID. */
#ifndef TOKAMAK_COMPAT_H
#define TOKAMAK_COMPAT_H

#include <main/php.h>
#include <main/php_main.h>
#include <main/php_ini.h>
#include <main/php_output.h>
#include <main/php_variables.h>
#include <main/SAPI.h>
#include <main/rfc1867.h>
#include <Zend/zend_exceptions.h>
#include <Zend/zend_extensions.h>
#include <Zend/zend_ini.h>
#include <Zend/zend_ini_scanner.h>
#include <Zend/zend_interfaces.h>
#include <Zend/zend_signal.h>
#include <Zend/zend_smart_str.h>
#include <Zend/zend_stream.h>
#include <ext/standard/basic_functions.h>
#include <ext/standard/file.h>
#include <ext/standard/head.h>
#include <ext/standard/info.h>
#include <ext/date/php_date.h>
#include <ext/json/php_json.h>
#include <ext/pcre/php_pcre.h>
#include <ext/random/php_random.h>
#include <ext/spl/spl_exceptions.h>

#if PHP_VERSION_ID < 80200
#error "Tokamak needs PHP 8.2 or newer"
#endif
#if PHP_VERSION_ID >= 80600
#error "Tokamak knows PHP up to 8.5"
#endif
#ifdef ZTS
#error "Tokamak needs the non-thread-safe build of PHP: each worker is a process"
#endif
#ifndef HAVE_PHP_SESSION
#error "Tokamak needs PHP's session extension inside libphp, as every distribution builds it"
#endif

#include <ext/session/php_session.h>

/* Defined in main/php_ini.c, declared in no header that is installed. */
extern PHPAPI char *php_ini_opened_path;
extern PHPAPI char *php_ini_scanned_path;

/* Engines with the repair for bailouts out of the memory manager (CVE-2026-109618) do not jump when
 * the memory limit is reached: they unwind like exit(), and run no PHP code any more until the
 * request ends. */
#ifdef ZEND_HAS_OOM
#define COMPAT_OUT_OF_MEMORY() ZEND_HAS_OOM()
/* The request ends: shutdown functions run again. */
#define COMPAT_END_OUT_OF_MEMORY() (EG(delayed_oom).state = ZEND_OOM_STATE_NONE)
#else
#define COMPAT_OUT_OF_MEMORY() 0
#define COMPAT_END_OUT_OF_MEMORY() ((void)0)
#endif

/* The state of mt_rand(): behind a pointer in 8.2, a part of the globals in 8.4. */
#if PHP_VERSION_ID >= 80400
#define COMPAT_MT_STATE ((void *)&RANDOM_G(mt19937))
#else
#define COMPAT_MT_STATE (RANDOM_G(mt19937)->state)
#endif

/* What mysqlnd counts for all connections, as its mysqlnd_structs.h has it: behind a pointer before
 * 8.5. mysqlnd may be loaded where its headers are not. */
#if PHP_VERSION_ID >= 80500
struct mysql_statistics {
    size_t count;
    uint64_t values[];
};
#else
struct mysql_statistics {
    uint64_t *values;
    size_t count;
};
#endif

/* PHP 8.5 has no `disable_classes` any more. */
#if PHP_VERSION_ID >= 80500
#define COMPAT_DISABLE_CLASS(name, len) ((void)(name), (void)(len))
#else
#define COMPAT_DISABLE_CLASS(name, len) zend_disable_class(name, len)
#endif

/* What requests of async mode have of their own, as rows of own_memory.c, in 8.4 alone: the fields
 * of the last response that the http:// wrapper saw, and how request_parse_body() reads. */
#if PHP_VERSION_ID >= 80400
#define COMPAT_OWN_ROWS(ROW)                                     \
    ROW(BG(last_http_headers), own_begin_values, own_end_values) \
    ROW(SG(request_parse_body_context), nothing, nothing)
#else
#define COMPAT_OWN_ROWS(ROW)
#endif

/* PHP's message of a fatal error has the stack since 8.5, if `fatal_error_backtraces` is on, and so
 * has what error_get_last() returns. */
#if PHP_VERSION_ID >= 80500
#define COMPAT_SHOWS_STACKS() EG(fatal_error_backtrace_on)
#define COMPAT_STACK_ROW(ROW) ROW(EG(last_fatal_error_backtrace), clear, own_end_values)
#else
#define COMPAT_SHOWS_STACKS() 0
#define COMPAT_STACK_ROW(ROW)
#endif

/* Since 8.4 PHP resolves an open_basedir that a script sets, relative to the directory of that
 * moment; its setting has the text of the script. NULL: the setting says what holds. */
#if PHP_VERSION_ID >= 80400
#define COMPAT_RESOLVED_OPEN_BASEDIR() (PG(open_basedir_modified) ? PG(open_basedir) : NULL)
#else
#define COMPAT_RESOLVED_OPEN_BASEDIR() ((const char *)NULL)
#endif

/* Destructors at a request's end may switch Fibers since 8.4. */
#if PHP_VERSION_ID >= 80400
#define COMPAT_BEGIN_DESTRUCTORS() ((void)0)
#define COMPAT_END_DESTRUCTORS() ((void)0)
#else
#define COMPAT_BEGIN_DESTRUCTORS() zend_fiber_switch_block()
#define COMPAT_END_DESTRUCTORS() zend_fiber_switch_unblock()
#endif

/* What mb_output_handler() keeps from call to call: a converter in 8.2, two numbers in 8.4. */
#if PHP_VERSION_ID >= 80300
#define COMPAT_MB_OUTPUT_ROW(globals)                                                    \
    (own_row){&(globals)->outconv_enabled,                                               \
              (size_t)((char *)(&(globals)->outconv_state + 1) -                         \
                       (char *)&(globals)->outconv_enabled),                             \
              clear, NULL}
#else
#define COMPAT_MB_OUTPUT_ROW(globals) \
    (own_row){&(globals)->outconv, sizeof((globals)->outconv), clear, NULL}
#endif

/* An error for want of memory that PHP raises when the function that wanted it has returned, as 8.2
 * of Debian does: a request may wait before that. */
#ifdef ZEND_HAS_OOM
#define COMPAT_OOM_ROW(ROW) ROW(EG(delayed_oom), clear, nothing)
#else
#define COMPAT_OOM_ROW(ROW)
#endif

/* ext/soap's memory, see soap.h: tables of its own before 8.5, whom a client reports errors to, and
 * one setting more before 8.5. */
#if PHP_VERSION_ID >= 80500
#define COMPAT_SOAP_TABLES
enum { COMPAT_SOAP_FLAGS = 2 };
#else
#define COMPAT_SOAP_TABLES HashTable namespaces, encoders, encoders_by_type;
enum { COMPAT_SOAP_FLAGS = 3 };
#endif
#if PHP_VERSION_ID >= 80400
#define COMPAT_SOAP_ERRORS char *error_code; zval error_object; bool handles_errors;
#else
#define COMPAT_SOAP_ERRORS bool handles_errors; char *error_code; zval error_object;
#endif

/* The functions of a user's session save handler: an array in 8.2, a struct of named ones in 8.4,
 * the same memory. */
enum { COMPAT_SAVE_HANDLERS = sizeof(PS(mod_user_names)) / sizeof(zval) };
#define COMPAT_SAVE_HANDLER(n) (((zval *)&PS(mod_user_names))[n])

/* Where the session was started, which PHP since 8.3 says when it is started again: the file, whose
 * reference goes over to the caller. */
static inline zend_string *compat_take_session_start(void)
{
    zend_string *file = NULL;

#if PHP_VERSION_ID >= 80300
    file = PS(session_started_filename);
    PS(session_started_filename) = NULL;
    PS(session_started_lineno) = 0;
#endif
    return file;
}

#endif
