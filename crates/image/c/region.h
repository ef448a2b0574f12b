/* The persistent region: all that survives a roll-back. */
#ifndef TOKAMAK_IMAGE_REGION_H
#define TOKAMAK_IMAGE_REGION_H

#include <setjmp.h>
#include <sys/types.h>

#include "image.h"

enum {
    PAGE = 4096,
    MOST_RANGES = 2048,
    MOST_MAPPINGS = 1024, /* made by one request */
    CHUNK = 2 << 20,      /* unit in which PHP asks the system for memory */
    MOST_SPARES = 64,
    MOST_SPARE_BYTES = 32 << 20,
    MOST_MARKS = 16,
    SCRATCH = 1 << 20     /* for text of the kernel */
};

typedef enum { NONE, OPEN, TAKEN, RUNNING } image_state;

/* Addresses [from, to). */
typedef struct {
    uintptr_t from, to;
} span;

/* A mapping that is part of the image. */
typedef struct {
    span at;
    uint64_t offset; /* of its first byte in the view: the private delta's from file_bytes on */
    int protection;
} image_range;

/* A mapping that a request made. */
typedef struct {
    span at;
    int protection;
    /* private, of no file, at no wanted address, and its protection was not changed */
    int is_plain;
    int is_of_allocator; /* asked for by reuse_code */
} new_mapping;

/* See spare.c. */
typedef struct {
    span at;
    int protection;
    int is_of_allocator;
    int is_free;      /* to be handed out */
    uint64_t used_at; /* roll-backs before it was handed out */
    /* one bit for each that was ever there, if it has to be cleared */
    uint64_t pages[CHUNK / PAGE / 64];
} spare;

/* A page that requests write to. */
typedef struct {
    uintptr_t at;
    uint32_t page;      /* number in the view */
    uint32_t unchanged; /* consecutive looks that found it equal to the image */
} dirty_page;

typedef struct {
    image_state state;
    pid_t owner; /* who may use this memory: a fork's child sees its parent's */
    volatile int rolling_back;
    int file;
    int page_map;
    int has_page_scan;
    size_t size; /* of the whole region, in bytes */
    const char *taint;
    char reason[512];

    jmp_buf moment;
    uintptr_t stack_low, stack_high;
    uintptr_t program_break;
    size_t tid_at; /* where libc keeps the thread's number; 0: unknown */

    const char *view;    /* read-only: the whole file, and behind it the whole addition */
    uint64_t view_bytes;
    uint64_t file_bytes; /* where the private delta begins */
    /* of all ranges: less than the view's, if the private delta has other originals of some pages
     * */
    uint64_t bytes;
    size_t range_count;
    image_range ranges[MOST_RANGES];
    size_t mark_count;
    span marks[MOST_MARKS]; /* wiped by each roll-back as by a fork */
    size_t base_count; /* mappings when the process began to run */
    span base[MOST_RANGES];

    /* who may be handed a chunk of an earlier request: expects zeros in its first page alone */
    span reuse_code;
    size_t mapping_count;
    new_mapping mappings[MOST_MAPPINGS];
    size_t spare_count;
    spare spares[MOST_SPARES];

    long faults;      /* at the end of the last roll-back */
    long known_faults; /* of which it is certain that they brought no page of the image */
    uint64_t roll_backs, scans, strays, last_ns;

    size_t dirty_count, dirty_room;
    dirty_page *dirty;    /* these point into the persistent region, behind this struct */
    uint32_t *is_dirty;   /* one bit a page of the view */
    uint8_t *drops;     /* for each page of the view: how often it was let go of */
    char *stack;
    size_t stack_room;
    char *scratch;
    void *callers;
} persistent_region;

/* NULL before image_open(). The variable is part of the image, its value never changes after. */
extern persistent_region *region;

/* A child that was forked has its parent's: gives it a copy of its own, at the same address. 0, or
 * -1: errno. */
int region_own(void);

#endif
