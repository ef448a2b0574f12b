/* Sessions. In worker mode none stays open between requests, and a save handler lasts as long as
 * what set it. A handler that the script set before its loop stays; one that a request set is taken
 * away after it.
 */
#include "cycle/session.h"
#include "ground/state.h"

static struct {
    const ps_module *mod, *default_mod;
    zval names[COMPAT_SAVE_HANDLERS];
    bool by_user;
} base;

static int is_kept(void)
{
    return (shim.config->reset & SHIM_RESET_SESSION) == 0;
}

int session_starts_by_itself(void)
{
    return PS(auto_start);
}

bool session_is_in_script(void)
{
    return PS(mod_user_implemented);
}

static void forget_where_it_started(void)
{
    zend_string *file = compat_take_session_start();

    if (file) {
        zend_string_release(file);
    }
}

/* As the session extension's own request start-up, when the request may have named another
 * handler. */
void session_begin(void)
{
    if (!PS(mod) || !PS(serializer)) {
        PS(session_status) = php_session_disabled;
    } else if (PS(auto_start)) {
        php_session_start();
        /* No script has started it, although the worker script runs. */
        forget_where_it_started();
    }
}

/* As the session extension's own request shutdown, but for the save handler. */
void session_end(void)
{
    zend_string *name;

    if (is_kept()) {
        return;
    }
    zend_try {
        php_session_flush(1);
    } zend_end_try();
    if (!Z_ISUNDEF(PS(http_session_vars))) {
        zval_ptr_dtor(&PS(http_session_vars));
        ZVAL_UNDEF(&PS(http_session_vars));
    }
    if (PS(mod_data) || PS(mod_user_implemented)) {
        zend_try {
            PS(mod)->s_close(&PS(mod_data));
        } zend_end_try();
    }
    if (PS(id)) {
        zend_string_release(PS(id));
        PS(id) = NULL;
    }
    if (PS(session_vars)) {
        zend_string_release(PS(session_vars));
        PS(session_vars) = NULL;
    }
    forget_where_it_started();
    PS(session_status) = php_session_none;
    PS(in_save_handler) = 0;
    PS(set_handler) = 0;
    PS(mod_user_is_open) = 0;
    PS(define_sid) = 1;
    name = zend_string_init(ZEND_STRL("_SESSION"), 0);
    zend_delete_global_variable(name);
    zend_string_release(name);
}

void session_learn(void)
{
    base.mod = PS(mod);
    base.default_mod = PS(default_mod);
    base.by_user = PS(mod_user_implemented);
    for (int i = 0; i < COMPAT_SAVE_HANDLERS; i++) {
        ZVAL_COPY(&base.names[i], &COMPAT_SAVE_HANDLER(i));
    }
}

static int is_same(const zval *a, const zval *b)
{
    return Z_TYPE_P(a) == Z_TYPE_P(b) && (Z_TYPE_P(a) == IS_UNDEF || Z_PTR_P(a) == Z_PTR_P(b));
}

/* The object whose methods are the request's save handler, if nobody else has it. */
static zend_object *handler_of_request(void)
{
    zend_object *object = NULL;
    uint32_t methods = 0;

    for (int i = 0; i < COMPAT_SAVE_HANDLERS; i++) {
        const zval *method = &COMPAT_SAVE_HANDLER(i), *of;
        if (Z_TYPE_P(method) != IS_ARRAY || is_same(method, &base.names[i])) {
            continue;
        }
        of = zend_hash_index_find(Z_ARR_P(method), 0);
        if (!of || Z_TYPE_P(of) != IS_OBJECT || (object && object != Z_OBJ_P(of))) {
            return NULL;
        }
        object = Z_OBJ_P(of);
        methods++;
    }
    return object && GC_REFCOUNT(object) == methods ? object : NULL;
}

/* As at the end of each script of PHP, where objects are destructed while they can still print, and
 * a save handler may be called once more afterwards. */
void session_destruct_handler(void)
{
    zend_object *object = is_kept() ? NULL : handler_of_request();

    if (object && !(OBJ_FLAGS(object) & IS_OBJ_DESTRUCTOR_CALLED)) {
        GC_ADD_FLAGS(object, IS_OBJ_DESTRUCTOR_CALLED);
        GC_ADDREF(object);
        object->handlers->dtor_obj(object);
        OBJ_RELEASE(object);
    }
}

void session_restore_handler(void)
{
    zend_string *setting;
    int same = PS(mod_user_implemented) == base.by_user;

    for (int i = 0; same && i < COMPAT_SAVE_HANDLERS; i++) {
        same = is_same(&base.names[i], &COMPAT_SAVE_HANDLER(i));
    }
    if (same) {
        return;
    }
    setting = zend_string_init(ZEND_STRL("session.save_handler"), 0);
    if (base.by_user) {
        PS(set_handler) = 1; /* the setting refuses "user" otherwise */
        zend_alter_ini_entry_chars(setting, "user", 4, ZEND_INI_USER, ZEND_INI_STAGE_RUNTIME);
        PS(set_handler) = 0;
    } else {
        zend_restore_ini_entry(setting, ZEND_INI_STAGE_RUNTIME);
    }
    zend_string_release(setting);
    for (int i = 0; i < COMPAT_SAVE_HANDLERS; i++) {
        zval gone = COMPAT_SAVE_HANDLER(i);
        ZVAL_COPY(&COMPAT_SAVE_HANDLER(i), &base.names[i]);
        zval_ptr_dtor(&gone);
    }
    PS(mod_user_implemented) = base.by_user;
    PS(mod) = base.mod;
    /* What SessionHandler calls: set to "user" twice, the setting would have it call itself. */
    PS(default_mod) = base.default_mod;
}

session_handler session_keep_handler(void)
{
    const session_handler kept = {PS(mod), PS(default_mod)};

    PS(set_handler) = 1; /* the setting refuses "user" otherwise */
    return kept;
}

void session_put_handler(session_handler kept)
{
    PS(set_handler) = 0;
    PS(mod) = kept.mod;
    PS(default_mod) = kept.default_mod;
}

void session_forget(void)
{
    for (int i = 0; i < COMPAT_SAVE_HANDLERS; i++) {
        zval_ptr_dtor(&base.names[i]);
        ZVAL_UNDEF(&base.names[i]);
    }
}
