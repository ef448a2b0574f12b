/* The walk over all that a worker holds, for the seal report: nodes in the order in which they are
 * found, children after their parents. */
#ifndef TOKAMAK_HEAP_WALK_H
#define TOKAMAK_HEAP_WALK_H

#include "ground/compat.h"

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

typedef struct {
    node *queue;
    const void **seen; /* open addressing, twice as many places as nodes */
    char *names;       /* numbers as text, for INDEX */
    size_t names_len;
    uint32_t head, tail;
    char line[4096];
    size_t line_len;
} walk_state;

extern walk_state walk;

enum { SEEN = 2 * MOST_NODES, NAMES = 16 * MOST_NODES };

uint64_t walk_digest_of(const char *at, size_t len);
/* Adds a node; its number, or -1 where there is no more room. */
int32_t walk_push(int32_t parent, char style, const char *name, size_t len, const zval *value,
                  uint64_t size, uint64_t digest);
int32_t walk_push_root(const char *name);
void walk_push_value(int32_t parent, char style, const zend_string *name, const zval *value);
void walk_push_element(int32_t parent, zend_ulong index, const zval *value);
void walk_push_table(int32_t parent, char style, HashTable *table);
/* A text that outlives the walk, and its own content. */
void walk_push_text(int32_t parent, const char *name, size_t len, const char *content,
                    size_t content_len);
/* Whether it has been met. */
int walk_saw(const void *at);
/* Looks at what a node stands for: its size, its digest, and what it leads to. */
void walk_value(int32_t id, node *n);

#endif
