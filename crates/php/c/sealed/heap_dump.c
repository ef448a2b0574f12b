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
#include <sys/mman.h>

#include "sealed/heap_dump.h"
#include "ground/state.h"
#include "sealed/heap_roots.h"
#include "sealed/heap_walk.h"

/* ---- lines ---- */

static void write_out(void)
{
    rust_write(SHIM_BODY, walk.line, walk.line_len);
    walk.line_len = 0;
}

/* Names with control characters, and very long ones, are distinguished by a digest of the whole. */
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
        uint32_t digest = (uint32_t)walk_digest_of(name, len);
        walk.line_len += (size_t)sprintf(walk.line + walk.line_len, "~%08x", digest);
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
    heap_roots_push();
    drain();
    heap_roots_push_the_rest();
    drain();
    if (walk.tail == MOST_NODES) {
        static const char too_much[] = "!\n"; /* the reader says so */
        write_out();
        rust_write(SHIM_BODY, too_much, sizeof(too_much) - 1);
    }
    write_out();
    heap_roots_forget();
}

static void *reserve(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    return at == MAP_FAILED ? NULL : at;
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
