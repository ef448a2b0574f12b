/* What the kernel keeps for the process beside memory and descriptors, and what no wrapper sees
 * change: a program that was left running may change its parent's limits, priority or processors
 * from outside, and so may code in C by system calls of its own.
 *
 * So the values are read back: after a request that has started a process or called C, and
 * otherwise once a second, which is how late a change by another process is noticed. Few can be put
 * back (a lowered limit cannot, a namespace cannot), so the worker is replaced.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "process/attributes.h"

static const char *const namespaces[NAMESPACES] = {
    "cgroup", "ipc", "mnt", "net", "pid_for_children", "user", "uts", "time_for_children"};

static void read_score(char *score, size_t size)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);

    if (fd != -1) {
        syscall(SYS_read, fd, score, size);
        syscall(SYS_close, fd);
    }
}

static void read_all(process_attributes *now)
{
    struct sched_param parameters = {0};
    struct __user_cap_header_struct this_process = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct stat root;

    memset(now, 0, sizeof(*now));
    for (int i = 0; i < LIMITS; i++) {
        getrlimit((__rlimit_resource_t)i, &now->limits[i]);
    }
    now->scheduling.nice = getpriority(PRIO_PROCESS, 0);
    now->scheduling.policy = sched_getscheduler(0);
    sched_getparam(0, &parameters);
    now->scheduling.priority = parameters.sched_priority;
    now->scheduling.io = syscall(SYS_ioprio_get, 1, 0); /* IOPRIO_WHO_PROCESS */
    syscall(SYS_sched_getaffinity, 0, sizeof(now->scheduling.processors),
            now->scheduling.processors);
    getresuid(&now->identity.users[0], &now->identity.users[1], &now->identity.users[2]);
    getresgid(&now->identity.groups[0], &now->identity.groups[1], &now->identity.groups[2]);
    now->identity.count = getgroups(MOST_GROUPS, now->identity.others);
    now->family.group = getpgid(0);
    now->family.session = getsid(0);
    for (int i = 0; i < NAMESPACES; i++) {
        char path[48];
        struct stat st;
        snprintf(path, sizeof(path), "/proc/self/ns/%s", namespaces[i]);
        now->spaces[i] = stat(path, &st) == 0 ? st.st_ino : 0;
    }
    prctl(PR_GET_NAME, now->name);
    read_score(now->score, sizeof(now->score));
    now->personality = syscall(SYS_personality, 0xffffffff);
    now->seccomp = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);
    now->no_new_privileges = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    now->timer_slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    now->keeps_capabilities = prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0);
    now->dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
    now->secure_bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
    now->without_huge_pages = prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0);
    now->memory_failure = prctl(PR_MCE_KILL_GET, 0, 0, 0, 0);
    prctl(PR_GET_CHILD_SUBREAPER, &now->adopts_orphans);
    prctl(PR_GET_PDEATHSIG, &now->signal_of_parent);
    syscall(SYS_capget, &this_process, now->capabilities);
    if (stat("/", &root) == 0) {
        now->root.device = root.st_dev;
        now->root.inode = root.st_ino;
    }
    for (int i = 0; i < KEYRINGS; i++) {
        /* of the thread, the process and the session; where there are none, an error's number */
        now->keyrings[i] = syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, -1 - i, 0);
    }
}

void attributes_learn(attributes *learned)
{
    read_all(&learned->process);
    for (int fd = 0; fd < STREAMS; fd++) {
        learned->stream_flags[fd] = fcntl(fd, F_GETFL);
    }
    fegetenv(&learned->arithmetic);
}

/* The description is shared with the server, whose log it may be. */
void attributes_put_back_streams(const attributes *learned)
{
    for (int fd = 0; fd < STREAMS; fd++) {
        int flags = fcntl(fd, F_GETFL);
        if (flags != -1 && learned->stream_flags[fd] != -1 && flags != learned->stream_flags[fd]) {
            fcntl(fd, F_SETFL, learned->stream_flags[fd]);
        }
    }
}

#define DIFFERS(part) (memcmp(&now.part, &was->part, sizeof(now.part)) != 0)

const char *attributes_compare(const attributes *learned)
{
    const process_attributes *was = &learned->process;
    process_attributes now;

    attributes_put_back_streams(learned);
    fesetenv(&learned->arithmetic);
    read_all(&now);
    if (memcmp(&now, was, sizeof(now)) == 0) {
        return NULL;
    }
    return DIFFERS(limits)       ? "its resource limits were changed"
           : DIFFERS(scheduling) ? "its priority or its processors were changed"
           : DIFFERS(identity)   ? "its user or its groups were changed"
           : DIFFERS(family)     ? "its process group was changed"
           : DIFFERS(spaces)     ? "its namespaces were changed"
           : DIFFERS(name)       ? "its name was changed"
           : DIFFERS(root)      ? "its root directory was changed"
           : DIFFERS(keyrings)  ? "its keyrings were changed"
           : DIFFERS(score) ? "the order in which processes are ended without memory was changed"
                            : "its rights were changed";
}
