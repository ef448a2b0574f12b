/* What ext/soap remembers: declared in no header that is installed, and the same from PHP 7 on but
 * for what 8.4 and 8.5 changed. Its settings alone show where it is. */
#ifndef TOKAMAK_SOAP_H
#define TOKAMAK_SOAP_H

#include "ground/compat.h"

typedef struct {
    COMPAT_SOAP_TABLES

    /* While a client waits for an answer: how to read it, and whom errors are reported to. */
    HashTable *type_map;
    int namespace_count, version;
    void *description;
    COMPAT_SOAP_ERRORS

    char flags[COMPAT_SOAP_FLAGS]; /* its settings */
    char *cache_directory;
    zend_long cache_seconds, cache_limit;
    HashTable *cached;

    struct {
        void *encoding;
        HashTable *class_map;
        int features;
    } of_client;

    HashTable unused;

    struct {
        int count;
        HashTable *known;
    } references;
} soap_memory;

/* From the type map on, of a call. What follows belongs to the settings, from its first byte on. */
enum { SOAP_CALL_SIZE = offsetof(soap_memory, flags) - offsetof(soap_memory, type_map) };

static inline soap_memory *soap_find(void)
{
    const zend_ini_entry *seconds =
        zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL("soap.wsdl_cache_ttl"));

    /* A place of its own is elsewhere in another layout. */
    return seconds && (size_t)seconds->mh_arg1 == offsetof(soap_memory, cache_seconds)
               ? seconds->mh_arg2
               : NULL;
}

#endif
