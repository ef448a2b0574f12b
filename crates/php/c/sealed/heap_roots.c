/* Where the walk over a worker's memory begins: all that PHP leads to values from. */
#include <locale.h>
#include <malloc.h>

#include "sealed/heap_roots.h"
#include "ground/state.h"
#include "sealed/boot_reads.h"
#include "sealed/heap_walk.h"
#include "sealed/persistent.h"

extern char **environ;

/* What the next request replaces in any case. */
static int is_of_request(const zend_string *name)
{
    static const char *const names[] = {"_GET", "_POST",    "_COOKIE", "_SERVER",
                                        "_ENV", "_REQUEST", "_FILES",  "GLOBALS"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if (zend_string_equals_cstr(name, names[i], strlen(names[i]))) {
            return 1;
        }
    }
    return 0;
}

static void push_globals(void)
{
    int32_t root = walk_push_root("globals");
    zend_string *name;
    zval *value;

    ZEND_HASH_FOREACH_STR_KEY_VAL(&EG(symbol_table), name, value) {
        if (name && !is_of_request(name)) {
            walk_push_value(root, VARIABLE, name, value);
        }
    } ZEND_HASH_FOREACH_END();
}

static void push_static_properties(void)
{
    int32_t root = walk_push_root("static properties");
    zend_class_entry *ce;

    ZEND_HASH_FOREACH_PTR(EG(class_table), ce) {
        zval *members = ce->default_static_members_count ? CE_STATIC_MEMBERS(ce) : NULL;
        zend_property_info *info;
        zend_string *name;
        int32_t class = -1;

        if (!members) {
            continue;
        }
        ZEND_HASH_FOREACH_STR_KEY_PTR(&ce->properties_info, name, info) {
            if ((info->flags & ZEND_ACC_STATIC) && info->ce == ce &&
                Z_TYPE(members[info->offset]) != IS_UNDEF) {
                if (class < 0) {
                    class = walk_push(root, PLAIN, ZSTR_VAL(ce->name), ZSTR_LEN(ce->name), NULL, 0,
                                      0);
                }
                walk_push_value(class, STATIC, name, &members[info->offset]);
            }
        } ZEND_HASH_FOREACH_END();
    } ZEND_HASH_FOREACH_END();
}

static void push_statics_of(int32_t root, HashTable *functions, zend_class_entry *ce)
{
    zend_function *function;
    int32_t class = -1;

    ZEND_HASH_FOREACH_PTR(functions, function) {
        HashTable *statics;
        int32_t id;
        if (function->type != ZEND_USER_FUNCTION || function->common.scope != ce ||
            !function->op_array.static_variables ||
            !ZEND_MAP_PTR(function->op_array.static_variables_ptr)) {
            continue;
        }
        statics = ZEND_MAP_PTR_GET(function->op_array.static_variables_ptr);
        if (!statics || zend_hash_num_elements(statics) == 0) {
            continue;
        }
        if (ce && class < 0) {
            class = walk_push(root, PLAIN, ZSTR_VAL(ce->name), ZSTR_LEN(ce->name), NULL, 0, 0);
        }
        id = walk_push(ce ? class : root, ce ? METHOD : FUNCTION,
                  ZSTR_VAL(function->common.function_name),
                  ZSTR_LEN(function->common.function_name), NULL, 0, 0);
        walk_push_table(id, LOCAL, statics);
    } ZEND_HASH_FOREACH_END();
}

static void push_function_statics(void)
{
    int32_t root = walk_push_root("function statics");
    zend_class_entry *ce;

    push_statics_of(root, EG(function_table), NULL);
    ZEND_HASH_FOREACH_PTR(EG(class_table), ce) {
        if (ce->type == ZEND_USER_CLASS) {
            push_statics_of(root, &ce->function_table, ce);
        }
    } ZEND_HASH_FOREACH_END();
}

/* The loop may run inside a function, as Symfony's runner does. */
static void push_frames(void)
{
    int32_t root = walk_push_root("running functions");

    for (zend_execute_data *frame = EG(current_execute_data); frame;
         frame = frame->prev_execute_data) {
        const zend_op_array *code;
        int32_t id;
        if (!frame->func || !ZEND_USER_CODE(frame->func->type) ||
            (ZEND_CALL_INFO(frame) & (ZEND_CALL_HAS_SYMBOL_TABLE | ZEND_CALL_CODE))) {
            continue; /* code of a file: its variables are the globals */
        }
        code = &frame->func->op_array;
        if (!code->function_name) {
            continue;
        }
        id = walk_push(root, FUNCTION, ZSTR_VAL(code->function_name), ZSTR_LEN(code->function_name),
                  NULL, 0, 0);
        if (Z_TYPE(frame->This) == IS_OBJECT) {
            walk_push(id, LOCAL, "this", 4, &frame->This, 0, 0);
        }
        for (int i = 0; i < code->last_var; i++) {
            walk_push_value(id, LOCAL, code->vars[i], ZEND_CALL_VAR_NUM(frame, i));
        }
    }
}

static void push_stack(int32_t root, const char *name, const zval *current, zend_stack *stack)
{
    int32_t id;

    if (Z_TYPE_P(current) == IS_UNDEF) {
        return;
    }
    id = walk_push(root, PLAIN, name, strlen(name), NULL, 0, 0);
    walk_push_element(id, 0, current);
    for (int i = zend_stack_count(stack); i-- > 0;) {
        const zval *below = (zval *)zend_stack_base(stack) + i;
        if (Z_TYPE_P(below) != IS_UNDEF) {
            walk_push_element(id, (zend_ulong)(zend_stack_count(stack) - i), below);
        }
    }
}

static void push_handlers(void)
{
    int32_t root = walk_push_root("handlers");

    push_stack(root, "error handler", &EG(user_error_handler), &EG(user_error_handlers));
    push_stack(root, "exception handler", &EG(user_exception_handler),
               &EG(user_exception_handlers));
}

static void push_settings(void)
{
    int32_t root = walk_push_root("settings");
    zend_ini_entry *entry;

    if (EG(modified_ini_directives)) {
        ZEND_HASH_FOREACH_PTR(EG(modified_ini_directives), entry) {
            const char *value = entry->value ? ZSTR_VAL(entry->value) : "";
            walk_push_text(root, ZSTR_VAL(entry->name), ZSTR_LEN(entry->name), value,
                      entry->value ? ZSTR_LEN(entry->value) : 0);
        } ZEND_HASH_FOREACH_END();
    }
}

/* Functions that return a piece of the engine's state and change nothing. */
static const struct {
    const char *function, *title;
} queries[] = {
    {"date_default_timezone_get", "timezone"},
    {"mb_internal_encoding", "mb_internal_encoding"},
    {"mb_regex_encoding", "mb_regex_encoding"},
    {"mb_language", "mb_language"},
    {"mb_http_output", "mb_http_output"},
    {"mb_substitute_character", "mb_substitute_character"},
    {"mb_detect_order", "mb_detect_order"},
    {"libxml_use_internal_errors", "libxml_use_internal_errors"},
    {"stream_get_wrappers", "stream wrappers"},
    {"stream_get_filters", "stream filters"},
    {"spl_autoload_functions", "autoloaders"},
    {"session_status", "session status"},
    {"session_id", "session id"},
};
enum { QUERIES = sizeof(queries) / sizeof(*queries) };
static zval answers[QUERIES];

static void push_engine(void)
{
    int32_t root = walk_push_root("engine");
    const char *locale = setlocale(LC_ALL, NULL);

    walk_push_text(root, ZEND_STRL("locale"), locale, strlen(locale));
    for (size_t i = 0; i < QUERIES; i++) {
        zend_function *function = zend_hash_str_find_ptr(EG(function_table), queries[i].function,
                                                         strlen(queries[i].function));
        ZVAL_UNDEF(&answers[i]);
        if (function) {
            zend_call_known_function(function, NULL, NULL, &answers[i], 0, NULL, NULL);
            walk_push(root, PLAIN, queries[i].title, strlen(queries[i].title), &answers[i], 0, 0);
        }
    }
}

static void push_environment(void)
{
    int32_t root = walk_push_root("environment");

    for (char **entry = environ; entry && *entry; entry++) {
        const char *end = strchr(*entry, '=');
        if (end) {
            walk_push_text(root, *entry, (size_t)(end - *entry), end + 1, strlen(end + 1));
        }
    }
}

static void push_declarations(void)
{
    int32_t root = walk_push_root("constants");
    zend_constant *constant;
    zend_class_entry *ce;
    zend_function *function;
    zend_string *name;

    ZEND_HASH_FOREACH_PTR(EG(zend_constants), constant) {
        if (ZEND_CONSTANT_MODULE_NUMBER(constant) == PHP_USER_CONSTANT && constant->name) {
            walk_push_value(root, PLAIN, constant->name, &constant->value);
        }
    } ZEND_HASH_FOREACH_END();
    root = walk_push_root("classes");
    ZEND_HASH_FOREACH_PTR(EG(class_table), ce) {
        if (ce->type == ZEND_USER_CLASS) {
            walk_push(root, PLAIN, ZSTR_VAL(ce->name), ZSTR_LEN(ce->name), NULL, sizeof(*ce), 0);
        }
    } ZEND_HASH_FOREACH_END();
    root = walk_push_root("functions");
    ZEND_HASH_FOREACH_STR_KEY_PTR(EG(function_table), name, function) {
        if (name && function->type == ZEND_USER_FUNCTION) {
            walk_push(root, PLAIN, ZSTR_VAL(name), ZSTR_LEN(name), NULL,
                      sizeof(function->op_array), 0);
        }
    } ZEND_HASH_FOREACH_END();
    root = walk_push_root("included files");
    ZEND_HASH_FOREACH_STR_KEY(&EG(included_files), name) {
        if (name) {
            walk_push(root, PLAIN, ZSTR_VAL(name), ZSTR_LEN(name), NULL, sizeof(Bucket), 0);
        }
    } ZEND_HASH_FOREACH_END();
}

static void push_resources(void)
{
    int32_t root = walk_push_root("resources"), persistent;
    zend_ulong handle;
    zend_string *key;
    zval *value;

    ZEND_HASH_FOREACH_NUM_KEY_VAL(&EG(regular_list), handle, value) {
        const char *type = zend_rsrc_list_get_rsrc_type(Z_RES_P(value));
        char *text = walk.names + walk.names_len;
        if (type && walk.names_len + LONGEST_NAME < NAMES) {
            int len = snprintf(text, LONGEST_NAME, "%s #" ZEND_LONG_FMT, type, (zend_long)handle);
            walk.names_len += (size_t)len + 1;
            walk_push(root, PLAIN, text, (size_t)len, NULL, sizeof(zend_resource), handle);
        }
    } ZEND_HASH_FOREACH_END();
    persistent = walk_push_root("persistent resources");
    ZEND_HASH_FOREACH_STR_KEY(&EG(persistent_list), key) {
        if (key) {
            walk_push(persistent, PLAIN, ZSTR_VAL(key), ZSTR_LEN(key), NULL, sizeof(zend_resource),
                      0);
        }
    } ZEND_HASH_FOREACH_END();
}

static void push_number(int32_t root, const char *name, uint64_t size)
{
    walk_push(root, PLAIN, name, strlen(name), NULL, size, 0);
}

/* Before anything else is queried: an answer may allocate. */
static void push_memory(void)
{
    int32_t root = walk_push_root("memory");
    uint32_t objects = 0;

    push_number(root, "PHP heap", zend_memory_usage(0));
    push_number(root, "malloc heap", mallinfo2().uordblks);
    for (uint32_t i = 1; i < EG(objects_store).top; i++) {
        objects += IS_OBJ_VALID(EG(objects_store).object_buckets[i]) ? 1 : 0;
    }
    push_number(walk_push_root("objects"), "alive", objects);
}

void heap_roots_push(void)
{
    push_memory();
    walk_push_root(shim.rolls_back ? "sealed" : "worker");
    push_globals();
    push_static_properties();
    push_function_statics();
    push_frames();
    push_handlers();
    push_settings();
    push_engine();
    push_environment();
    push_declarations();
    push_resources();
    boot_reads_push();
    persistent_push();
}

void heap_roots_push_the_rest(void)
{
    int32_t root = walk_push_root("objects held elsewhere");

    for (uint32_t i = 1; i < EG(objects_store).top; i++) {
        zend_object *object = EG(objects_store).object_buckets[i];
        zval *value = (zval *)(walk.names + ((walk.names_len + 15) & ~(size_t)15));
        char *text = (char *)(value + 1);
        int len;
        if (!IS_OBJ_VALID(object) || walk_saw(object) ||
            walk.names_len + 2 * LONGEST_NAME > NAMES) {
            continue;
        }
        ZVAL_OBJ(value, object);
        len = snprintf(text, LONGEST_NAME, "%s #%u", ZSTR_VAL(object->ce->name), i);
        len = len < LONGEST_NAME ? len : LONGEST_NAME - 1;
        walk.names_len = (size_t)(text + len + 1 - walk.names);
        walk_push(root, PLAIN, text, (size_t)len, value, 0, 0);
    }
}

void heap_roots_forget(void)
{
    for (size_t i = 0; i < QUERIES; i++) {
        zval_ptr_dtor(&answers[i]);
    }
}
