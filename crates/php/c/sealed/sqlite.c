/* Transactions that a request has left open in an SQLite database of the boot.
 *
 * SQLite would see in the unlocked file what a crash leaves, and recover from it, unless its
 * journal was in memory. So SQLite itself rolls back first, as it does for php-fpm, where the
 * connection ends with the request. */
#include "sealed/sqlite.h"
#include "ground/state.h"
#include "process/descriptors.h"

enum { ATTR_DRIVER_NAME = 16 }; /* of PDO */

typedef struct {
    zend_object *object;
    zend_class_entry *class; /* PDO or SQLite3: an application's own may override methods */
} database;

/* Of the image. */
static database *databases;
static size_t count;

static int is_instance(const zend_object *object, const zend_class_entry *class)
{
    return class && instanceof_function(object->ce, class);
}

/* What is thrown is forgotten. Without a calling function PHP would take it for uncaught and log
 * it. */
static void call_quietly(const database *d, const char *method, zval *argument, zval *result)
{
    zend_execute_data caller = {.func = (zend_function *)&zend_pass_function};
    zend_execute_data *before = EG(current_execute_data);

    caller.prev_execute_data = before;
    EG(current_execute_data) = &caller;
    ZVAL_UNDEF(result);
    zend_call_method(d->object, d->class, NULL, method, strlen(method), result, 1, argument, NULL);
    zend_clear_exception();
    EG(current_execute_data) = before;
}

static int is_of_sqlite(zend_object *object, zend_class_entry *pdo)
{
    zval attribute, name;
    int found;

    ZVAL_LONG(&attribute, ATTR_DRIVER_NAME);
    /* throws for one whose constructor has failed */
    call_quietly(&(database){object, pdo}, "getattribute", &attribute, &name);
    found = Z_TYPE(name) == IS_STRING && zend_string_equals_literal(Z_STR(name), "sqlite");
    zval_ptr_dtor(&name);
    return found;
}

void sqlite_learn(uint32_t first)
{
    zend_class_entry *sqlite3 = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("sqlite3"));
    zend_class_entry *pdo = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("pdo"));
    const zend_objects_store *store = &EG(objects_store);

    for (uint32_t i = first; i < store->top; i++) {
        zend_object *object = store->object_buckets[i];
        zend_class_entry *class = NULL;
        if (!IS_OBJ_VALID(object)) {
            continue;
        }
        if (is_instance(object, sqlite3)) {
            class = sqlite3;
        } else if (is_instance(object, pdo) && is_of_sqlite(object, pdo)) {
            class = pdo;
        }
        if (class) {
            databases = perealloc(databases, (count + 1) * sizeof(*databases), 1);
            databases[count++] = (database){object, class};
        }
    }
}

/* Without a transaction it fails, which is no news for any handler of the request. */
void sqlite_roll_back(void)
{
    zend_error_handling before;
    zval statement, result;

    if (count == 0 || !descriptors_were_locked()) {
        return;
    }
    zend_replace_error_handling(EH_THROW, NULL, &before);
    ZVAL_STRINGL(&statement, "ROLLBACK", strlen("ROLLBACK"));
    for (size_t i = 0; i < count; i++) {
        call_quietly(&databases[i], "exec", &statement, &result);
        zval_ptr_dtor(&result);
    }
    zval_ptr_dtor(&statement);
    zend_restore_error_handling(&before);
}
