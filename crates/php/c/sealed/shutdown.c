/* The end of a request in sealed mode: php_request_shutdown() in its order, without what only gives
 * memory back, because the roll-back forgets all of it.
 *
 * Each step that PHP exports is called. Three walks are ours, since PHP's would take apart what
 * belongs to the boot as well: through the symbol table and the objects for destructors, through
 * the resources, and through the modules.
 */
#include <Zend/zend_fibers.h>

#include "sealed/shutdown.h"
#include "ground/sapi.h"
#include "ground/state.h"
#include "sealed/sqlite.h"

static uint32_t boot_objects;         /* handles below are the image's */
static zend_ulong boot_resources;     /* the same for resources */
static zend_module_entry **shutdowns; /* modules with a function for a request's end */
static size_t shutdown_count;

/* New handles lie above all of the boot's: no hole is filled. */
uint32_t shutdown_draw_line(void)
{
    uint32_t before = boot_objects;

    EG(objects_store).free_list_head = -1;
    boot_objects = EG(objects_store).top;
    boot_resources = (zend_ulong)EG(regular_list).nNextFreeElement;
    return before;
}

/* ---- objects ---- */

/* A variable points into its function's frame as long as that runs. Functions that a fatal error or
 * the roll-back cuts short never come to their end. */
static zval *variable(zval *value)
{
    return Z_TYPE_P(value) == IS_INDIRECT ? Z_INDIRECT_P(value) : value;
}

static void destroy_variable(zval *value)
{
    zval_ptr_dtor(variable(value));
}

/* Whether a global variable alone holds an object of the request: it goes before what it uses. */
static int remove_last_holder(zval *value)
{
    value = variable(value);
    return Z_TYPE_P(value) == IS_OBJECT && Z_REFCOUNT_P(value) == 1 &&
                   Z_OBJ_HANDLE_P(value) >= boot_objects
               ? ZEND_HASH_APPLY_REMOVE
               : ZEND_HASH_APPLY_KEEP;
}

/* As zend_objects_store_call_destructors(). */
static void destroy_objects(void)
{
    zend_objects_store *store = &EG(objects_store);

    EG(flags) |= EG_FLAGS_OBJECT_STORE_NO_REUSE;
    COMPAT_BEGIN_DESTRUCTORS();
    /* A destructor may make new objects, and the store may move. */
    for (uint32_t i = boot_objects; i < store->top; i++) {
        zend_object *object = store->object_buckets[i];
        if (!IS_OBJ_VALID(object) || (OBJ_FLAGS(object) & IS_OBJ_DESTRUCTOR_CALLED)) {
            continue;
        }
        GC_ADD_FLAGS(object, IS_OBJ_DESTRUCTOR_CALLED);
        if (object->handlers->dtor_obj != zend_objects_destroy_object || object->ce->destructor) {
            GC_ADDREF(object);
            object->handlers->dtor_obj(object);
            GC_DELREF(object);
        }
    }
    COMPAT_END_DESTRUCTORS();
}

/* The store without the boot's objects, for functions of PHP, which begin at its second place. */
static zend_objects_store objects_of_request(void)
{
    zend_objects_store store = EG(objects_store);

    store.object_buckets += boot_objects - 1;
    store.top -= boot_objects - 1;
    return store;
}

/* As zend_call_destructors(). */
static void call_destructors(void)
{
    HashTable *globals = &EG(symbol_table);
    uint32_t count;

    globals->pDestructor = destroy_variable;
    zend_try {
        do {
            count = zend_hash_num_elements(globals);
            zend_hash_reverse_apply(globals, remove_last_holder);
        } while (count != zend_hash_num_elements(globals));
        destroy_objects();
    } zend_catch {
        zend_objects_store objects = objects_of_request();
        zend_objects_store_mark_destructed(&objects);
    } zend_end_try();
}

/* An archive is written, a connection says good-bye, a database merges its log: what a class of an
 * extension does at its object's end, and what a subclass inherits. Plain objects have no such
 * end. */
static void free_objects(void)
{
    zend_objects_store objects = objects_of_request();

    zend_objects_store_free_object_storage(&objects, true);
}

/* ---- resources ---- */

static int is_written(const zend_resource *resource)
{
    const php_stream *stream = resource->ptr;

    return resource->type == php_file_le_stream() && stream &&
           (stream->flags & PHP_STREAM_FLAG_WAS_WRITTEN);
}

/* Its format has an end, which only closing writes. */
static int is_compressed(const php_stream *stream)
{
    return strcmp(stream->ops->label, "ZLIB") == 0 || strcmp(stream->ops->label, "BZip2") == 0;
}

/* A request's own are closed. A stream of the boot stays open, so what the request has written and
 * its buffers and filters hold is sent where it belongs, before the roll-back takes it back. */
static void end_resource(zend_resource *resource)
{
    if ((zend_ulong)resource->handle >= boot_resources) {
        zend_list_close(resource);
    } else if (is_written(resource) && is_compressed(resource->ptr)) {
        zend_list_close(resource); /* and its descriptor with it, which replaces the worker */
    } else if (is_written(resource)) {
        _php_stream_flush(resource->ptr, 1);
    }
}

/* As zend_close_rsrc_list(): the last one first. What is closed may open others, and the list
 * move. */
static void end_resources(void)
{
    HashTable *list = &EG(regular_list);

    for (uint32_t i = list->nNumUsed; i-- > 0;) {
        const zval *place = ZEND_HASH_ELEMENT(list, i);
        if (Z_TYPE_P(place) != IS_UNDEF && Z_RES_P(place)->type >= 0) {
            end_resource(Z_RES_P(place));
        }
    }
}

/* What the boot has written must be in no image, or each request would write it again. */
void shutdown_flush_streams(void)
{
    zend_resource *resource;

    ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
        if (is_written(resource)) {
            php_stream_flush(resource->ptr);
        }
    } ZEND_HASH_FOREACH_END();
}

/* ---- writers of XML ---- */

/* Those of the boot that write to a stream, and what each has not yet handed on to it. One that
 * writes to memory goes back with it. */
static struct {
    uint32_t handle;
    zend_object *object;
} *writers;
static size_t writer_count;

/* Whether it writes to a stream. */
static bool flush_writer(zend_object *writer)
{
    zend_class_entry *ce = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("xmlwriter"));
    zend_function *flush = ce ? zend_hash_str_find_ptr(&ce->function_table, ZEND_STRL("flush"))
                              : NULL;
    zval keep, result;
    bool is_count;

    if (!flush || !instanceof_function(writer->ce, ce)) {
        return false;
    }
    ZVAL_FALSE(&keep);
    ZVAL_UNDEF(&result);
    zend_call_known_function(flush, writer, writer->ce, &result, 1, &keep, NULL);
    if (EG(exception)) {
        zend_clear_exception(); /* it has nothing open */
    }
    is_count = Z_TYPE(result) == IS_LONG;
    zval_ptr_dtor(&result);
    return is_count;
}

void shutdown_learn_writers(void)
{
    const zend_objects_store *store = &EG(objects_store);

    for (uint32_t i = 1; i < store->top; i++) {
        zend_object *object = store->object_buckets[i];
        if (IS_OBJ_VALID(object) && flush_writer(object)) {
            writers = erealloc(writers, (writer_count + 1) * sizeof(*writers));
            writers[writer_count].handle = i;
            writers[writer_count++].object = object;
        }
    }
}

/* One that the request has let go of wrote all when it went. */
static void flush_writers(void)
{
    for (size_t i = 0; i < writer_count; i++) {
        if (EG(objects_store).object_buckets[writers[i].handle] == writers[i].object) {
            flush_writer(writers[i].object);
        }
    }
}

/* ---- modules ---- */

/* Extensions of PHP's own whose request shutdown gives back memory or resets variables and does
 * nothing else. It would only write to more pages. */
static int only_frees(const zend_module_entry *module)
{
    static const char *const names[] = {
        "bcmath",    "ctype", "date",     "dom",       "exif",   "FFI",       "fileinfo",
        "filter",    "gd",    "hash",     "iconv",     "intl",   "json",      "libxml",
        "mbstring",  "pcre",  "PDO",      "Phar",      "random", "readline",  "Reflection",
        "SimpleXML", "SPL",   "standard", "tidy",      "tokenizer", "xml",   "xmlreader",
        "xmlwriter", "xsl",   "zip",      "zlib"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if (strcmp(module->name, names[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

void shutdown_learn_modules(void)
{
    zend_module_entry *module;

    shutdowns = pemalloc(zend_hash_num_elements(&module_registry) * sizeof(*shutdowns), 1);
    ZEND_HASH_FOREACH_PTR(&module_registry, module) {
        if (module->request_shutdown_func && !only_frees(module)) {
            shutdowns[shutdown_count++] = module;
        }
    } ZEND_HASH_FOREACH_END();
}

/* As zend_deactivate_modules(): the last one first. The session is written here. */
static void shut_down_modules(void)
{
    EG(current_execute_data) = NULL;
    for (size_t i = shutdown_count; i-- > 0;) {
        zend_try {
            shutdowns[i]->request_shutdown_func(shutdowns[i]->type, shutdowns[i]->module_number);
        } zend_end_try();
    }
}

/* ---- all together ---- */

/* Each step runs whatever became of the one before. */
#define STEP(what)           \
    zend_first_try { what; } \
    zend_end_try()

void shutdown_request(void)
{
    COMPAT_END_OUT_OF_MEMORY();
    EG(flags) |= EG_FLAGS_IN_SHUTDOWN;
    EG(current_execute_data) = NULL;
    /* As php_deactivate_ticks(), without giving back what the boot has allocated. */
    zend_llist_init(&PG(tick_functions), PG(tick_functions).size, PG(tick_functions).dtor, 1);
    STEP(php_call_shutdown_functions());
    STEP(call_destructors());
    STEP(php_output_end_all());
    STEP(zend_unset_timeout());
    STEP(shut_down_modules());
    STEP(php_output_deactivate());
    STEP(sqlite_roll_back());
    STEP(flush_writers());

    EG(flags) |= EG_FLAGS_IN_RESOURCE_SHUTDOWN;
    STEP(end_resources());
    EG(active) = 0; /* no function of a script is called from here on */
    STEP(free_objects());
    STEP(end_resources()); /* what was opened meanwhile, as zend_destroy_rsrc_list() */
    if (SG(rfc1867_uploaded_files)) {
        STEP(destroy_uploaded_files_hash());
    }
    sapi_leave_copy();
    sapi_end_response();
}
