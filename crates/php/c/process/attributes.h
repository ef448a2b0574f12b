/* What the kernel keeps for a process beside its memory and its descriptors. */
#ifndef TOKAMAK_ATTRIBUTES_H
#define TOKAMAK_ATTRIBUTES_H

#include <fenv.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

enum { LIMITS = RLIM_NLIMITS, NAMESPACES = 8, STREAMS = 3, MOST_GROUPS = 256, PROCESSORS = 8192,
       KEYRINGS = 3 };

/* Those that are compared, byte by byte: zeroed before they are filled. */
typedef struct {
    struct rlimit limits[LIMITS];
    struct {
        long nice, policy, priority, io;
        unsigned char processors[PROCESSORS / 8];
    } scheduling;
    struct {
        uid_t users[3];
        gid_t groups[3];
        int count;
        gid_t others[MOST_GROUPS];
    } identity;
    struct {
        pid_t group, session;
    } family;
    ino_t spaces[NAMESPACES];
    char name[16];
    char score[16]; /* how soon the kernel ends it when memory is short */
    long personality, seccomp, no_new_privileges, timer_slack, keeps_capabilities, dumpable;
    long secure_bits, adopts_orphans, without_huge_pages, memory_failure;
    int signal_of_parent;
    uint32_t capabilities[6];
    struct {
        dev_t device;
        ino_t inode;
    } root;
    long keyrings[KEYRINGS];
} process_attributes;

typedef struct {
    process_attributes process;
    int stream_flags[STREAMS]; /* of the open file descriptions behind 0, 1 and 2 */
    fenv_t arithmetic;
} attributes;

void attributes_learn(attributes *learned);
/* Flags of standard input, output and error; programs share them. */
void attributes_put_back_streams(const attributes *learned);
/* Puts back what can be; what else differs, as a text for a log, or NULL. */
const char *attributes_compare(const attributes *learned);

#endif
