/* An extension that compares what a request of async mode leaves in the memory of PHP and of its
 * extensions when it waits with what it finds there when it goes on. mod.rs compiles it.
 *
 * Whatever differs was changed by others while the request waited. Fibers of one request share its
 * memory, so the last of them to wait counts.
 */
#include <link.h>
#include <stdlib.h>

#include "headers.h"

typedef struct {
    const char *name, *module;
    void *at; /* from the beginning of the module's globals, if there is a module */
    size_t size;
} field;

#define FIELD(macro, variable, name) \
    {#macro "(" #name ")", NULL, &variable.name, sizeof(variable.name)},
#define FIELD_OF_MODULE(module, type, name) \
    {module "(" #name ")", module, (void *)offsetof(type, name), sizeof(((type *)0)->name)},

static field fields[] = {
#include "fields.h"
};

enum { FIELDS = sizeof(fields) / sizeof(*fields) };

/* What can be written of one file. */
typedef struct {
    const char *file;
    char *begin;
    size_t size;
} area;

enum { MOST_AREAS = 256, MOST_REQUESTS = 512, WORD = 8, PAGE = 256 };

static struct {
    area areas[MOST_AREAS];
    size_t count, size;
    struct {
        const void *request; /* NULL: the place is free */
        char *left;
    } waits[MOST_REQUESTS];
    bool *changed; /* by byte */
    zend_long compared;
    bool is_on;
} seen;

/* ---- where it is ---- */

static void add_area(const char *file, char *begin, char *end)
{
    if (begin < end && seen.count < MOST_AREAS) {
        seen.areas[seen.count++] = (area){file, begin, (size_t)(end - begin)};
        seen.size += (size_t)(end - begin);
    }
}

/* PHP itself, and its extensions; not this one. */
static int look_at_file(struct dl_phdr_info *info, size_t size, void *unused)
{
    const char *name = strrchr(info->dlpi_name, '/');
    ElfW(Addr) fixed = 0;

    (void)size, (void)unused;
    name = name ? name + 1 : info->dlpi_name;
    if (strncmp(name, "libphp", 6) != 0 && (!strstr(info->dlpi_name, EXTENSIONS) ||
                                            strcmp(name, "watcher.so") == 0)) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_GNU_RELRO) {
            fixed = (part->p_vaddr + part->p_memsz + 4095) / 4096 * 4096;
        }
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        ElfW(Addr) begin = part->p_vaddr > fixed ? part->p_vaddr : fixed;
        if (part->p_type == PT_LOAD && (part->p_flags & PF_W)) {
            begin = (begin + WORD - 1) / WORD * WORD;
            add_area(name, (char *)info->dlpi_addr + begin,
                     (char *)info->dlpi_addr + part->p_vaddr + part->p_memsz / WORD * WORD);
        }
    }
    return 0;
}

/* NULL if that cannot be known. */
static char *globals_of(const char *name)
{
    zend_module_entry *module;

    if (strcmp(name, "cwd") == 0) {
        return (char *)realpath_cache_get_buckets() - offsetof(virtual_cwd_globals, realpath_cache);
    }
    module = zend_hash_str_find_ptr(&module_registry, name, strlen(name));
    return module ? module->globals_ptr : NULL;
}

static void find_fields(void)
{
    for (size_t i = 0; i < FIELDS; i++) {
        if (fields[i].module) {
            char *globals = globals_of(fields[i].module);
            fields[i].at = globals ? globals + (size_t)fields[i].at : NULL;
        }
    }
}

/* ---- when requests take turns ---- */

static char **place_of(const void *request, bool make)
{
    int free = -1;

    for (int i = 0; i < MOST_REQUESTS; i++) {
        if (seen.waits[i].request == request) {
            return &seen.waits[i].left;
        }
        if (free < 0 && !seen.waits[i].request) {
            free = i;
        }
    }
    if (!make || free < 0) {
        return NULL;
    }
    seen.waits[free].request = request;
    return &seen.waits[free].left;
}

/* The first to hear of it: what is in place is that of who leaves. */
static void note_left(zend_fiber_context *from, zend_fiber_context *to)
{
    char **left, *at;

    (void)from, (void)to;
    if (!seen.is_on || !SG(server_context) || !(left = place_of(SG(server_context), true))) {
        return;
    }
    if (!*left) {
        *left = malloc(seen.size);
    }
    at = *left;
    for (size_t i = 0; i < seen.count; at += seen.areas[i++].size) {
        memcpy(at, seen.areas[i].begin, seen.areas[i].size);
    }
}

static bool same_page(const char *left, const area *of, size_t byte)
{
    size_t size = of->size - byte < PAGE ? of->size - byte : PAGE;

    return memcmp(left + byte, of->begin + byte, size) == 0;
}

/* The last to hear of it: what is in place is that of who comes. */
static void compare(zend_fiber_context *from, zend_fiber_context *to)
{
    char **left = seen.is_on && SG(server_context) ? place_of(SG(server_context), false) : NULL;
    const char *at;
    bool *changed = seen.changed;

    (void)from, (void)to;
    if (!left) {
        return;
    }
    at = *left;
    for (size_t i = 0; i < seen.count; at += seen.areas[i++].size) {
        const area *of = &seen.areas[i];
        for (size_t byte = 0; byte < of->size; byte++) {
            if (byte % PAGE == 0 && same_page(at, of, byte)) {
                byte += PAGE - 1;
            } else {
                changed[byte] |= at[byte] != of->begin[byte];
            }
        }
        changed += of->size;
    }
    seen.compared++;
}

/* ---- what it says ---- */

static bool is_setting(const char *at)
{
    zend_ini_entry *setting;

    ZEND_HASH_FOREACH_PTR(EG(ini_directives), setting) {
        char *place = (char *)setting->mh_arg2 + (size_t)setting->mh_arg1;
        if (setting->mh_arg2 && at >= place && at < place + sizeof(void *)) {
            return true;
        }
    } ZEND_HASH_FOREACH_END();
    return false;
}

/* A field, or else a word of the module's globals or of the file. Settings have none: they are
 * undone and set again, so that the same text is elsewhere afterwards. */
static zend_string *name_of(const area *of, const char *byte)
{
    zend_module_entry *module;

    if (is_setting(byte)) {
        return NULL;
    }
    for (size_t i = 0; i < FIELDS; i++) {
        const char *at = fields[i].at;
        if (at && at <= byte && byte < at + fields[i].size) {
            return zend_string_init(fields[i].name, strlen(fields[i].name), 0);
        }
    }
    ZEND_HASH_FOREACH_PTR(&module_registry, module) {
        const char *globals = module->globals_ptr;
        if (globals && globals <= byte && byte < globals + module->globals_size) {
            return strpprintf(0, "%s+%zu", module->name, (size_t)(byte - globals) / WORD * WORD);
        }
    } ZEND_HASH_FOREACH_END();
    return strpprintf(0, "%s+%zu", of->file, (size_t)(byte - of->begin) / WORD * WORD);
}

/* From now on. */
static ZEND_FUNCTION(watch)
{
    ZEND_PARSE_PARAMETERS_NONE();
    dl_iterate_phdr(look_at_file, NULL);
    seen.changed = calloc(seen.size, sizeof(*seen.changed));
    zend_observer_fiber_switch_register(compare);
    find_fields();
    seen.is_on = true;
}

/* How often it was looked at, and what others have changed. */
static ZEND_FUNCTION(watched)
{
    const bool *changed = seen.changed;
    zval names;

    ZEND_PARSE_PARAMETERS_NONE();
    array_init(return_value);
    add_next_index_long(return_value, seen.compared);
    array_init(&names);
    for (size_t i = 0; i < seen.count; changed += seen.areas[i++].size) {
        for (size_t byte = 0; byte < seen.areas[i].size; byte++) {
            zend_string *name = changed[byte]
                                    ? name_of(&seen.areas[i], seen.areas[i].begin + byte) : NULL;
            if (name && zend_hash_add_empty_element(Z_ARRVAL(names), name)) {
                add_next_index_str(return_value, name);
            } else if (name) {
                zend_string_release(name);
            }
        }
    }
    zval_ptr_dtor(&names);
}

/* The fields that the headers have, but for those where settings are kept. */
static ZEND_FUNCTION(watched_fields)
{
    ZEND_PARSE_PARAMETERS_NONE();
    array_init(return_value);
    for (size_t i = 0; i < FIELDS; i++) {
        if (fields[i].at && !is_setting(fields[i].at)) {
            add_next_index_string(return_value, fields[i].name);
        }
    }
}

ZEND_BEGIN_ARG_INFO(arginfo_none, 0)
ZEND_END_ARG_INFO()

static const zend_function_entry functions[] = {
    ZEND_FE(watch, arginfo_none)
    ZEND_FE(watched, arginfo_none)
    ZEND_FE(watched_fields, arginfo_none)
    ZEND_FE_END
};

static PHP_MINIT_FUNCTION(watcher)
{
    (void)type, (void)module_number;
    zend_observer_fiber_switch_register(note_left);
    return SUCCESS;
}

zend_module_entry watcher_module_entry = {
    STANDARD_MODULE_HEADER, "watcher", functions, PHP_MINIT(watcher), NULL, NULL, NULL, NULL, "1",
    STANDARD_MODULE_PROPERTIES};

ZEND_GET_MODULE(watcher)
