/* The seal report's look at a worker: what is there between two requests.
 *
 * Only where the setting `report` is given: a request of the method STATE is then answered here and
 * never reaches the application. The answer is a forest, one line a node, parents before children:
 *
 *   parent \t size \t digest \t handle \t flags \t style \t name \n
 *
 * A node's number is that of its line, from 0; roots have the parent -1. Objects have a handle, all
 * else 0. The walk goes breadth first, so each value counts once, at its shortest path. It runs no
 * PHP code but the destructors of garbage, and keeps what it needs in memory of its own, not in the
 * heaps that it describes. docs/internals/seal-report.md says who reads it.
 */
#include <locale.h>
#include <malloc.h>
#include <sys/mman.h>

#include "heap_dump.h"
#include "sealed.h"
#include "state.h"

#include <Zend/zend_closures.h>

extern char **environ;

/* How a node's name continues its parent's path. */
enum {
    ROOT = 'r',
    PLAIN = 'p',    /* as it stands */
    VARIABLE = 'v', /* $name */
    PROPERTY = 'o', /* ->name */
    STATIC = 's',   /* ::$name */
    KEY = 'k',      /* ['name'] */
    INDEX = 'i',    /* [name], a number */
    FUNCTION = 'f', /* name() */
    METHOD = 'm',   /* ::name() */
    LOCAL = 'l'     /* $name, behind a function */
};

enum { MOST_NODES = 1 << 22, LONGEST_NAME = 120 };

typedef struct {
    const char *name;
    const zval *value; /* NULL: nothing to walk into, `size` and `digest` are all there is */
    uint64_t size, digest;
    uint32_t name_len, handle;
    int32_t parent;
    char style;
} node;

static struct {
    node *queue;
    const void **seen; /* open addressing, twice as many places as nodes */
    char *names;       /* numbers as text, for INDEX */
    size_t names_len;
    uint32_t head, tail;
    char line[4096];
    size_t line_len;
} walk;

enum { SEEN = 2 * MOST_NODES, NAMES = 16 * MOST_NODES };

static void *reserve(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static uint64_t digest_of(const char *at, size_t len)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */

    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ (unsigned char)at[i]) * 1099511628211u;
    }
    return hash;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    return (a ^ b) * 1099511628211u;
}

/* ---- the queue ---- */

static int32_t push(int32_t parent, char style, const char *name, size_t len, const zval *value,
                    uint64_t size, uint64_t digest)
{
    if (walk.tail == MOST_NODES) {
        return -1;
    }
    walk.queue[walk.tail] = (node){name, value, size, digest, (uint32_t)len, 0, parent, style};
    return (int32_t)walk.tail++;
}

static int32_t push_root(const char *name)
{
    return push(-1, ROOT, name, strlen(name), NULL, 0, 0);
}

static void push_value(int32_t parent, char style, const zend_string *name, const zval *value)
{
    if (Z_TYPE_P(value) == IS_INDIRECT) {
        value = Z_INDIRECT_P(value);
    }
    if (Z_TYPE_P(value) != IS_UNDEF) {
        push(parent, style, ZSTR_VAL(name), ZSTR_LEN(name), value, 0, 0);
    }
}

static void push_element(int32_t parent, zend_ulong index, const zval *value)
{
    char *text = walk.names + walk.names_len;
    int len;

    if (walk.names_len + 24 > NAMES) {
        return;
    }
    len = sprintf(text, ZEND_LONG_FMT, (zend_long)index);
    walk.names_len += (size_t)len;
    push(parent, INDEX, text, (size_t)len, value, 0, 0);
}

static void push_table(int32_t parent, char style, HashTable *table)
{
    zend_ulong index;
    zend_string *key;
    zval *value;

    ZEND_HASH_FOREACH_KEY_VAL(table, index, key, value) {
        if (key) {
            push_value(parent, style, key, value);
        } else {
            push_element(parent, index, value);
        }
    } ZEND_HASH_FOREACH_END();
}

/* A text that outlives the walk, and its own content. */
static void push_text(int32_t parent, const char *name, size_t len, const char *content,
                      size_t content_len)
{
    push(parent, PLAIN, name, len, NULL, len + content_len, digest_of(content, content_len));
}

static size_t place_of(const void *at)
{
    size_t place = ((uintptr_t)at >> 3) * 0x9e3779b97f4a7c15u % SEEN;

    while (walk.seen[place] && walk.seen[place] != at) {
        place = (place + 1) % SEEN;
    }
    return place;
}

static int was_seen(const void *at)
{
    return walk.seen[place_of(at)] != NULL;
}

/* Whether it is met for the first time. */
static int is_new(const void *at)
{
    size_t place = place_of(at);

    if (walk.seen[place]) {
        return 0;
    }
    walk.seen[place] = at;
    return 1;
}

/* ---- values ---- */

static uint64_t table_size(const HashTable *table)
{
    if (HT_FLAGS(table) & HASH_FLAG_UNINITIALIZED) {
        return sizeof(*table);
    }
    /* What is used, not what is reserved: that grows in leaps. */
    return sizeof(*table) +
           table->nNumOfElements *
               (HT_FLAGS(table) & HASH_FLAG_PACKED ? sizeof(zval) : sizeof(Bucket) + 4);
}

static uint64_t table_digest(HashTable *table)
{
    uint64_t digest = table->nNumOfElements;
    zend_ulong index;
    zend_string *key;
    zval *value;

    ZEND_HASH_FOREACH_KEY_VAL(table, index, key, value) {
        (void)value;
        digest = mix(digest, key ? digest_of(ZSTR_VAL(key), ZSTR_LEN(key)) : index);
    } ZEND_HASH_FOREACH_END();
    return digest;
}

/* The digest of a table tells its keys apart, those of its values tell the rest. */
static void walk_array(int32_t id, node *n, HashTable *table)
{
    n->digest = table_digest(table);
    if (GC_FLAGS(table) & GC_IMMUTABLE) {
        return; /* a literal of the code */
    }
    n->size = table_size(table);
    push_table(id, KEY, table);
}

/* What a closure has bound, and its own static variables. */
static void walk_closure(int32_t id, node *n, zend_object *object)
{
    zval *this = zend_get_closure_this_ptr(&(zval){.value.obj = object});
    const zend_function *function = zend_get_closure_method_def(object);
    HashTable *statics;

    if (Z_TYPE_P(this) == IS_OBJECT) {
        push(id, VARIABLE, "this", 4, this, 0, 0);
    }
    if (function->type != ZEND_USER_FUNCTION) {
        return;
    }
    n->digest = mix(n->digest, function->op_array.line_start);
    statics = ZEND_MAP_PTR_GET(function->op_array.static_variables_ptr);
    if (statics && is_new(statics)) {
        n->size += GC_FLAGS(statics) & GC_IMMUTABLE ? 0 : table_size(statics);
        push_table(id, VARIABLE, statics);
    }
}

static void walk_object(int32_t id, node *n, zend_object *object)
{
    zend_class_entry *ce = object->ce;
    zval *values;
    HashTable *table;
    int count;

    n->handle = object->handle;
    n->digest = digest_of(ZSTR_VAL(ce->name), ZSTR_LEN(ce->name));
    n->size =
        (uint64_t)object->handlers->offset + sizeof(zend_object) + zend_object_properties_size(ce);
    for (int i = 0; i < ce->default_properties_count; i++) {
        zend_property_info *info = ce->properties_info_table ? ce->properties_info_table[i] : NULL;
        if (info && Z_TYPE(object->properties_table[i]) != IS_UNDEF) {
            const char *class, *name;
            size_t len;
            zend_unmangle_property_name_ex(info->name, &class, &name, &len);
            push(id, PROPERTY, name, len, &object->properties_table[i], 0, 0);
        }
    }
    if (object->properties && is_new(object->properties)) {
        zend_string *key;
        zval *value;
        n->size += table_size(object->properties);
        ZEND_HASH_FOREACH_STR_KEY_VAL(object->properties, key, value) {
            if (key && Z_TYPE_P(value) != IS_INDIRECT) {
                push_value(id, PROPERTY, key, value);
            }
        } ZEND_HASH_FOREACH_END();
    }
    if (ce == zend_ce_closure) {
        walk_closure(id, n, object);
        return;
    }
    /* What the class keeps beside its properties. zend_std_get_gc() itself would build properties
     * in order to show them. */
    if (object->handlers->get_gc != zend_std_get_gc) {
        values = NULL;
        count = 0;
        table = object->handlers->get_gc(object, &values, &count);
        for (int i = 0; i < count; i++) {
            zval *value = &values[i];
            int is_property = value >= object->properties_table &&
                              value < object->properties_table + ce->default_properties_count;
            /* The buffer is the next object's too: only what a value points to lives on. */
            if (!is_property && Z_REFCOUNTED_P(value) &&
                walk.names_len + sizeof(zval) + 24 <= NAMES) {
                zval *copy;
                walk.names_len = (walk.names_len + 15) & ~(size_t)15;
                copy = (zval *)(walk.names + walk.names_len);
                walk.names_len += sizeof(zval);
                ZVAL_COPY_VALUE(copy, value);
                push_element(id, (zend_ulong)i, copy);
            }
        }
        if (table && table != object->properties && is_new(table)) {
            n->size += table_size(table);
            push_table(id, KEY, table);
        }
    }
}

static void walk_value(int32_t id, node *n)
{
    const zval *value = n->value;

    if (Z_TYPE_P(value) == IS_INDIRECT) {
        value = Z_INDIRECT_P(value);
    }
    if (Z_ISREF_P(value)) {
        if (!is_new(Z_REF_P(value))) {
            return;
        }
        n->size = sizeof(zend_reference);
        value = Z_REFVAL_P(value);
    }
    n->digest = Z_TYPE_P(value);
    switch (Z_TYPE_P(value)) {
    case IS_LONG:
    case IS_DOUBLE:
        n->digest = mix(n->digest, (uint64_t)Z_LVAL_P(value));
        break;
    case IS_STRING:
        n->digest = digest_of(Z_STRVAL_P(value), Z_STRLEN_P(value));
        if (!ZSTR_IS_INTERNED(Z_STR_P(value)) && is_new(Z_STR_P(value))) {
            n->size += ZEND_MM_ALIGNED_SIZE(_ZSTR_STRUCT_SIZE(Z_STRLEN_P(value)));
        }
        break;
    case IS_ARRAY:
        if (is_new(Z_ARR_P(value))) {
            uint64_t of_reference = n->size;
            walk_array(id, n, Z_ARR_P(value));
            n->size += of_reference;
        }
        break;
    case IS_OBJECT:
        if (is_new(Z_OBJ_P(value))) {
            uint64_t of_reference = n->size;
            walk_object(id, n, Z_OBJ_P(value));
            n->size += of_reference;
        }
        break;
    case IS_RESOURCE:
        n->digest = mix(n->digest, (uint64_t)Z_RES_P(value)->handle);
        break;
    default:
        break;
    }
}

/* ---- roots ---- */

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
    int32_t root = push_root("globals");
    zend_string *name;
    zval *value;

    ZEND_HASH_FOREACH_STR_KEY_VAL(&EG(symbol_table), name, value) {
        if (name && !is_of_request(name)) {
            push_value(root, VARIABLE, name, value);
        }
    } ZEND_HASH_FOREACH_END();
}

static void push_static_properties(void)
{
    int32_t root = push_root("static properties");
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
                    class = push(root, PLAIN, ZSTR_VAL(ce->name), ZSTR_LEN(ce->name), NULL, 0, 0);
                }
                push_value(class, STATIC, name, &members[info->offset]);
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
            class = push(root, PLAIN, ZSTR_VAL(ce->name), ZSTR_LEN(ce->name), NULL, 0, 0);
        }
        id = push(ce ? class : root, ce ? METHOD : FUNCTION,
                  ZSTR_VAL(function->common.function_name),
                  ZSTR_LEN(function->common.function_name), NULL, 0, 0);
        push_table(id, LOCAL, statics);
    } ZEND_HASH_FOREACH_END();
}

static void push_function_statics(void)
{
    int32_t root = push_root("function statics");
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
    int32_t root = push_root("running functions");

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
        id = push(root, FUNCTION, ZSTR_VAL(code->function_name), ZSTR_LEN(code->function_name),
                  NULL, 0, 0);
        if (Z_TYPE(frame->This) == IS_OBJECT) {
            push(id, LOCAL, "this", 4, &frame->This, 0, 0);
        }
        for (int i = 0; i < code->last_var; i++) {
            push_value(id, LOCAL, code->vars[i], ZEND_CALL_VAR_NUM(frame, i));
        }
    }
}

static void push_stack(int32_t root, const char *name, const zval *current, zend_stack *stack)
{
    int32_t id;

    if (Z_TYPE_P(current) == IS_UNDEF) {
        return;
    }
    id = push(root, PLAIN, name, strlen(name), NULL, 0, 0);
    push_element(id, 0, current);
    for (int i = zend_stack_count(stack); i-- > 0;) {
        const zval *below = (zval *)zend_stack_base(stack) + i;
        if (Z_TYPE_P(below) != IS_UNDEF) {
            push_element(id, (zend_ulong)(zend_stack_count(stack) - i), below);
        }
    }
}

static void push_handlers(void)
{
    int32_t root = push_root("handlers");

    push_stack(root, "error handler", &EG(user_error_handler), &EG(user_error_handlers));
    push_stack(root, "exception handler", &EG(user_exception_handler),
               &EG(user_exception_handlers));
}

static void push_settings(void)
{
    int32_t root = push_root("settings");
    zend_ini_entry *entry;

    if (EG(modified_ini_directives)) {
        ZEND_HASH_FOREACH_PTR(EG(modified_ini_directives), entry) {
            const char *value = entry->value ? ZSTR_VAL(entry->value) : "";
            push_text(root, ZSTR_VAL(entry->name), ZSTR_LEN(entry->name), value,
                      entry->value ? ZSTR_LEN(entry->value) : 0);
        } ZEND_HASH_FOREACH_END();
    }
}

/* Functions that tell a piece of the engine's state and change nothing. */
static const struct {
    const char *function, *title;
} asked[] = {
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
enum { ASKED = sizeof(asked) / sizeof(*asked) };
static zval answers[ASKED];

static void push_engine(void)
{
    int32_t root = push_root("engine");
    const char *locale = setlocale(LC_ALL, NULL);

    push_text(root, ZEND_STRL("locale"), locale, strlen(locale));
    for (size_t i = 0; i < ASKED; i++) {
        zend_function *function = zend_hash_str_find_ptr(EG(function_table), asked[i].function,
                                                         strlen(asked[i].function));
        ZVAL_UNDEF(&answers[i]);
        if (function) {
            zend_call_known_function(function, NULL, NULL, &answers[i], 0, NULL, NULL);
            push(root, PLAIN, asked[i].title, strlen(asked[i].title), &answers[i], 0, 0);
        }
    }
}

static void push_environment(void)
{
    int32_t root = push_root("environment");

    for (char **entry = environ; entry && *entry; entry++) {
        const char *end = strchr(*entry, '=');
        if (end) {
            push_text(root, *entry, (size_t)(end - *entry), end + 1, strlen(end + 1));
        }
    }
}

static void push_declarations(void)
{
    int32_t root = push_root("constants");
    zend_constant *constant;
    zend_class_entry *ce;
    zend_function *function;
    zend_string *name;

    ZEND_HASH_FOREACH_PTR(EG(zend_constants), constant) {
        if (ZEND_CONSTANT_MODULE_NUMBER(constant) == PHP_USER_CONSTANT && constant->name) {
            push_value(root, PLAIN, constant->name, &constant->value);
        }
    } ZEND_HASH_FOREACH_END();
    root = push_root("classes");
    ZEND_HASH_FOREACH_PTR(EG(class_table), ce) {
        if (ce->type == ZEND_USER_CLASS) {
            push(root, PLAIN, ZSTR_VAL(ce->name), ZSTR_LEN(ce->name), NULL, sizeof(*ce), 0);
        }
    } ZEND_HASH_FOREACH_END();
    root = push_root("functions");
    ZEND_HASH_FOREACH_STR_KEY_PTR(EG(function_table), name, function) {
        if (name && function->type == ZEND_USER_FUNCTION) {
            push(root, PLAIN, ZSTR_VAL(name), ZSTR_LEN(name), NULL, sizeof(function->op_array), 0);
        }
    } ZEND_HASH_FOREACH_END();
    root = push_root("included files");
    ZEND_HASH_FOREACH_STR_KEY(&EG(included_files), name) {
        if (name) {
            push(root, PLAIN, ZSTR_VAL(name), ZSTR_LEN(name), NULL, sizeof(Bucket), 0);
        }
    } ZEND_HASH_FOREACH_END();
}

static void push_resources(void)
{
    int32_t root = push_root("resources"), persistent;
    zend_ulong handle;
    zend_string *key;
    zval *value;

    ZEND_HASH_FOREACH_NUM_KEY_VAL(&EG(regular_list), handle, value) {
        const char *type = zend_rsrc_list_get_rsrc_type(Z_RES_P(value));
        char *text = walk.names + walk.names_len;
        if (type && walk.names_len + LONGEST_NAME < NAMES) {
            int len = snprintf(text, LONGEST_NAME, "%s #" ZEND_LONG_FMT, type, (zend_long)handle);
            walk.names_len += (size_t)len + 1;
            push(root, PLAIN, text, (size_t)len, NULL, sizeof(zend_resource), handle);
        }
    } ZEND_HASH_FOREACH_END();
    persistent = push_root("persistent resources");
    ZEND_HASH_FOREACH_STR_KEY(&EG(persistent_list), key) {
        if (key) {
            push(persistent, PLAIN, ZSTR_VAL(key), ZSTR_LEN(key), NULL, sizeof(zend_resource), 0);
        }
    } ZEND_HASH_FOREACH_END();
}

static void push_number(int32_t root, const char *name, uint64_t size)
{
    push(root, PLAIN, name, strlen(name), NULL, size, 0);
}

/* Before anything else is asked: an answer may allocate. */
static void push_memory(void)
{
    int32_t root = push_root("memory");
    uint32_t objects = 0;

    push_number(root, "PHP heap", zend_memory_usage(0));
    push_number(root, "malloc heap", mallinfo2().uordblks);
    for (uint32_t i = 1; i < EG(objects_store).top; i++) {
        objects += IS_OBJ_VALID(EG(objects_store).object_buckets[i]) ? 1 : 0;
    }
    push_number(push_root("objects"), "alive", objects);
}

/* Objects that no root leads to: an extension, a library or the middle of an expression holds
 * them. */
static void push_the_rest(void)
{
    int32_t root = push_root("objects held elsewhere");

    for (uint32_t i = 1; i < EG(objects_store).top; i++) {
        zend_object *object = EG(objects_store).object_buckets[i];
        zval *value = (zval *)(walk.names + ((walk.names_len + 15) & ~(size_t)15));
        char *text = (char *)(value + 1);
        int len;
        if (!IS_OBJ_VALID(object) || was_seen(object) ||
            walk.names_len + 2 * LONGEST_NAME > NAMES) {
            continue;
        }
        ZVAL_OBJ(value, object);
        len = snprintf(text, LONGEST_NAME, "%s #%u", ZSTR_VAL(object->ce->name), i);
        len = len < LONGEST_NAME ? len : LONGEST_NAME - 1;
        walk.names_len = (size_t)(text + len + 1 - walk.names);
        push(root, PLAIN, text, (size_t)len, value, 0, 0);
    }
}

/* ---- lines ---- */

static void write_out(void)
{
    rust_write(walk.line, walk.line_len);
    walk.line_len = 0;
}

/* Names with control characters, and very long ones, are told apart by a digest of the whole. */
static void write_name(const char *name, size_t len)
{
    size_t shown = len < LONGEST_NAME ? len : LONGEST_NAME;
    int is_plain = shown == len;

    for (size_t i = 0; i < shown; i++) {
        unsigned char c = (unsigned char)name[i];
        if (c < ' ' || c == 127) {
            is_plain = 0;
            c = '?';
        }
        walk.line[walk.line_len++] = (char)c;
    }
    if (!is_plain) {
        walk.line_len +=
            (size_t)sprintf(walk.line + walk.line_len, "~%08x", (uint32_t)digest_of(name, len));
    }
}

static int holds(const char *at, size_t len, const char *token)
{
    return token[0] && memmem(at, len, token, strlen(token)) != NULL;
}

static int has_token(const node *n)
{
    const char *token = shim.config->report;
    const zval *value = n->value;

    if (holds(n->name, n->name_len, token)) {
        return 1;
    }
    if (!value) {
        return 0;
    }
    if (Z_TYPE_P(value) == IS_INDIRECT) {
        value = Z_INDIRECT_P(value);
    }
    ZVAL_DEREF(value);
    return Z_TYPE_P(value) == IS_STRING && holds(Z_STRVAL_P(value), Z_STRLEN_P(value), token);
}

static void write_node(const node *n)
{
    if (walk.line_len + LONGEST_NAME + 128 > sizeof(walk.line)) {
        write_out();
    }
    walk.line_len +=
        (size_t)sprintf(walk.line + walk.line_len, "%d\t%llu\t%llx\t%u\t%c\t%c\t", n->parent,
                        (unsigned long long)n->size, (unsigned long long)n->digest, n->handle,
                        has_token(n) ? 't' : '-', n->style);
    write_name(n->name, n->name_len);
    walk.line[walk.line_len++] = '\n';
}

/* Children are pushed while their parent is looked at, so parents stand before them. */
static void drain(void)
{
    for (; walk.head < walk.tail; walk.head++) {
        node *n = &walk.queue[walk.head];
        if (n->value) {
            walk_value((int32_t)walk.head, n);
        }
        write_node(n);
    }
}

static void describe(void)
{
    if (!shim.sealed) {
        /* Garbage in cycles is no leak: it waits for its collector. In an image it is rolled
         * back. */
        zend_gc_collect_cycles();
    }
    push_memory();
    push_root(sealed_is_worker() ? "sealed" : "worker");
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
    drain();
    push_the_rest();
    drain();
    if (walk.tail == MOST_NODES) {
        static const char too_much[] = "!\n"; /* the reader says so */
        write_out();
        rust_write(too_much, sizeof(too_much) - 1);
    }
    write_out();
    for (size_t i = 0; i < ASKED; i++) {
        zval_ptr_dtor(&answers[i]);
    }
}

static void answer(void)
{
    memset(&walk, 0, sizeof(walk));
    walk.queue = reserve(MOST_NODES * sizeof(node));
    walk.seen = reserve(SEEN * sizeof(void *));
    walk.names = reserve(NAMES);
    if (walk.queue && walk.seen && walk.names) {
        rust_head(200, NULL, 0, 0);
        describe();
    } else {
        rust_head(507, NULL, 0, 0);
    }
    munmap(walk.queue, MOST_NODES * sizeof(node));
    munmap(walk.seen, SEEN * sizeof(void *));
    munmap(walk.names, NAMES);
    rust_finish(0, 200);
}

int heap_dump_answered(const shim_request *request)
{
    if (!shim.config->report || !request || strcmp(request->field[SHIM_METHOD].at, "STATE") != 0) {
        return 0;
    }
    answer();
    return 1;
}

const shim_request *heap_dump_next(void)
{
    const shim_request *request;

    do {
        request = rust_next();
    } while (heap_dump_answered(request));
    return request;
}
