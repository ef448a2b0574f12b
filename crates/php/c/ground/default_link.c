/* pgsql's default connection, which functions use that are called without one: pg_query($sql),
 * pg_last_error().
 *
 * PHP has one variable for it in each process: the connection that was opened last. In async mode
 * many requests are under way at once, so each request must find its own connection there, or none,
 * and then PHP refuses the call. Nor may pg_connect() return to a request the connection that
 * another request has opened with the same text.
 *
 * No header of PHP declares that variable. We find it as the pointer among the globals of pgsql
 * that is equal to what pg_connect() has just returned.
 */
#include "ground/default_link.h"
#include "ground/override.h"

enum { FORCE_NEW = 2 }; /* PGSQL_CONNECT_FORCE_NEW */

static struct {
    zend_object **place; /* PHP's variable; NULL: not found, as no connection was opened yet */
    zend_object *of_script;
    zend_function *connect, *status;
} known;

static zif_handler real_connect, real_pconnect;

static void find_place(const zval *opened)
{
    const zend_module_entry *pgsql = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("pgsql"));
    zend_object **at = pgsql ? pgsql->globals_ptr : NULL;

    if (known.place || Z_TYPE_P(opened) != IS_OBJECT) {
        return;
    }
    for (size_t i = 0; at && i < pgsql->globals_size / sizeof(*at); i++) {
        if (at[i] == Z_OBJ_P(opened)) {
            known.place = &at[i];
            return;
        }
    }
}

static ZEND_NAMED_FUNCTION(notice_pconnect)
{
    real_pconnect(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    find_place(return_value);
}

/* Whether PHP would look for an open connection with the same text. */
static bool may_be_another(zend_execute_data *call)
{
    const zval *flags = ZEND_CALL_NUM_ARGS(call) > 1 ? ZEND_CALL_ARG(call, 2) : NULL;

    return serving->own && ZEND_CALL_NUM_ARGS(call) > 0 &&
           Z_TYPE_P(ZEND_CALL_ARG(call, 1)) == IS_STRING &&
           (!flags || (Z_TYPE_P(flags) == IS_LONG && !(Z_LVAL_P(flags) & FORCE_NEW)));
}

static bool is_open(zend_object *connection)
{
    zval argument, result;

    ZVAL_OBJ(&argument, connection);
    ZVAL_UNDEF(&result);
    zend_call_known_function(known.status, NULL, NULL, &result, 1, &argument, NULL);
    return Z_TYPE(result) == IS_LONG && Z_LVAL(result) == 0;
}

/* Calls the extension's function with other flags, in a frame that observers of calls do not see:
 * they would count two calls. */
static void connect_anew(zend_execute_data *execute_data, zval *return_value, zend_long flags)
{
    zend_execute_data *call = zend_vm_stack_push_call_frame(ZEND_CALL_NESTED_FUNCTION,
                                                            known.connect, 2, NULL);

    ZVAL_COPY(ZEND_CALL_ARG(call, 1), ZEND_CALL_ARG(execute_data, 1));
    ZVAL_LONG(ZEND_CALL_ARG(call, 2), FORCE_NEW | flags);
    call->prev_execute_data = execute_data;
    EG(current_execute_data) = call;
    real_connect(call, return_value);
    EG(current_execute_data) = execute_data;
    zend_vm_stack_free_args(call);
    zend_vm_stack_free_call_frame(call);
}

static ZEND_NAMED_FUNCTION(notice_connect)
{
    zend_string *text;

    if (!may_be_another(execute_data)) {
        real_connect(INTERNAL_FUNCTION_PARAM_PASSTHRU);
        find_place(return_value);
        return;
    }
    text = Z_STR_P(ZEND_CALL_ARG(execute_data, 1));
    if (known.place && *known.place && serving->link_text &&
        zend_string_equals(serving->link_text, text) && is_open(*known.place)) {
        RETURN_OBJ_COPY(*known.place);
    }
    connect_anew(execute_data, return_value,
                 ZEND_CALL_NUM_ARGS(execute_data) > 1 ? Z_LVAL_P(ZEND_CALL_ARG(execute_data, 2)) : 0);
    find_place(return_value);
    if (serving->link_text) {
        zend_string_release(serving->link_text);
    }
    serving->link_text = zend_string_copy(text);
}

void default_link_watch(void)
{
    override_function(NULL, "pg_connect", &real_connect, notice_connect);
    override_function(NULL, "pg_pconnect", &real_pconnect, notice_pconnect);
    known.connect = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("pg_connect"));
    known.status = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("pg_connection_status"));
}

void default_link_learn(void)
{
    known.of_script = known.place ? *known.place : NULL;
    if (known.of_script) {
        GC_ADDREF(known.of_script);
    }
}

void default_link_restore(void)
{
    zend_object *gone = known.place ? *known.place : NULL;

    if (known.place && gone != known.of_script) {
        *known.place = known.of_script;
        if (known.of_script) {
            GC_ADDREF(known.of_script);
        }
        if (gone) {
            zend_object_release(gone);
        }
    }
    if (serving->link_text) {
        zend_string_release(serving->link_text);
        serving->link_text = NULL;
    }
}

void default_link_forget(void)
{
    if (known.of_script) {
        zend_object_release(known.of_script);
        known.of_script = NULL;
    }
}

zend_object *default_link_take(void)
{
    zend_object *taken = known.place ? *known.place : NULL;

    if (taken) {
        *known.place = NULL;
    }
    return taken;
}

/* The object that is replaced is the script's, which holds further references to it. */
void default_link_give(zend_object *given)
{
    if (known.place) {
        if (*known.place) {
            zend_object_release(*known.place);
        }
        *known.place = given;
    }
}
