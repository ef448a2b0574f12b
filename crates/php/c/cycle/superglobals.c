/* The superglobals of a worker script's requests: made anew for each, but for $_ENV, which is the
 * script's own. */
#include "cycle/superglobals.h"
#include "ground/mode.h"
#include "ground/state.h"
#include "ground/variables.h"

/* Of the script, when its loop began. */
static struct {
    int is_learned;
    HashTable putenv;
    zval env;
} base;

/* ---- $_ENV and putenv() ---- */

static zval *env_variable(void)
{
    zval *env = zend_hash_find(&EG(symbol_table), ZSTR_KNOWN(ZEND_STR_AUTOGLOBAL_ENV));
    return env && Z_TYPE_P(env) == IS_INDIRECT ? Z_INDIRECT_P(env) : env;
}

void superglobals_learn(void)
{
    zval *env;

    /* It may not exist yet: it is made when a script that names it is compiled. */
    zend_is_auto_global(ZSTR_KNOWN(ZEND_STR_AUTOGLOBAL_ENV));
    env = env_variable();

    /* putenv() keeps what it replaced in this table, and puts it back when the entry goes. The
     * boot's entries stay aside, so that emptying the table undoes the request's changes only. */
    base.putenv = BG(putenv_ht);
    zend_hash_init(&BG(putenv_ht), 1, NULL, base.putenv.pDestructor, 0);
    ZVAL_UNDEF(&base.env);
    if (env && Z_TYPE_P(env) == IS_ARRAY) {
        ZVAL_COPY(&base.env, env);
    }
    base.is_learned = 1;
    variables_learn();
}

void superglobals_restore_env(void)
{
    zval *env = env_variable();

    if (zend_hash_num_elements(&BG(putenv_ht)) > 0) {
        zend_hash_clean(&BG(putenv_ht));
    }
    if (Z_TYPE(base.env) == IS_UNDEF ||
        (env && Z_TYPE_P(env) == IS_ARRAY && Z_ARR_P(env) == Z_ARR(base.env))) {
        return;
    }
    Z_ADDREF(base.env);
    zend_hash_update(&EG(symbol_table), ZSTR_KNOWN(ZEND_STR_AUTOGLOBAL_ENV), &base.env);
}

void superglobals_forget(void)
{
    base.is_learned = 0;
    zend_hash_destroy(&BG(putenv_ht));
    BG(putenv_ht) = base.putenv;
    zval_ptr_dtor(&base.env);
}

/* ---- all of them ---- */

/* Those that are made when a script that names them is compiled. */
static const zend_known_string_id late[] = {ZEND_STR_AUTOGLOBAL_SERVER,
                                            ZEND_STR_AUTOGLOBAL_REQUEST};

enum { LATE = sizeof(late) / sizeof(*late) };

/* NULL: `auto_globals_jit` is off, and PHP makes it at each start. */
static zend_auto_global *late_global(size_t n)
{
    zend_auto_global *global = zend_hash_find_ptr(CG(auto_globals), ZSTR_KNOWN(late[n]));

    return global && global->jit ? global : NULL;
}

/* Whether a script has named it, maybe long ago. In async mode the symbol table has a place for
 * each, but there it is armed until then: see arm_superglobals(). */
static bool is_named(const zend_auto_global *global)
{
    return shim.mode->is_concurrent ? !global->armed
                                     : zend_hash_exists(&EG(symbol_table), global->name);
}

static void make(zend_auto_global *global)
{
    global->armed = global->auto_global_callback(global->name);
}

static void disarm(zend_string *name)
{
    zend_auto_global *global = zend_hash_find_ptr(CG(auto_globals), name);
    if (global) {
        global->armed = 0;
    }
}

/* As php_hash_environment(), but what is as it should be is not written: in a sealed worker each
 * page written to is copied back. And in async mode what was named stays so: to arm it would show
 * requests under way that it was not. */
static void arm_superglobals(void)
{
    zend_auto_global *global;

    ZEND_HASH_MAP_FOREACH_PTR(CG(auto_globals), global) {
        bool armed =
            global->jit
                ? global->armed || !shim.mode->is_concurrent
                : global->auto_global_callback && global->auto_global_callback(global->name);
        if (global->armed != armed) {
            global->armed = armed;
        }
    } ZEND_HASH_FOREACH_END();
    /* PHP does not build it if $_SERVER is made later. */
    if (PG(register_argc_argv) && Z_TYPE(PG(http_globals)[TRACK_VARS_SERVER]) == IS_ARRAY) {
        php_build_argv(SG(request_info).query_string, &PG(http_globals)[TRACK_VARS_SERVER]);
    }
}

void superglobals_renew(void)
{
    zend_string *env = ZSTR_KNOWN(ZEND_STR_AUTOGLOBAL_ENV);

    for (int i = 0; i < NUM_TRACK_VARS; i++) {
        zval_ptr_dtor_nogc(&PG(http_globals)[i]);
        ZVAL_UNDEF(&PG(http_globals)[i]);
    }
    arm_superglobals();
    /* What is named is made anew; what is not, when it is first needed. */
    for (size_t i = 0; i < LATE; i++) {
        zend_auto_global *global = late_global(i);
        if (global && is_named(global)) {
            make(global);
        }
    }
    /* $_ENV is the application's: dotenv libraries fill it at boot. */
    if (zend_hash_exists(&EG(symbol_table), env)) {
        disarm(env);
        if ((shim.config->reset & SHIM_RESET_ENV) && base.is_learned) {
            superglobals_restore_env();
        }
    }
}

uint32_t superglobals_unnamed(void)
{
    uint32_t unnamed = 0;

    for (size_t i = 0; i < LATE; i++) {
        const zend_auto_global *global = late_global(i);
        unnamed |= global && !is_named(global) ? 1u << i : 0;
    }
    return unnamed;
}

void superglobals_catch_up(uint32_t unnamed)
{
    for (size_t i = 0; i < LATE && unnamed != 0; i++) {
        zend_auto_global *global = late_global(i);
        if ((unnamed & 1u << i) && is_named(global)) {
            make(global);
        }
    }
}
