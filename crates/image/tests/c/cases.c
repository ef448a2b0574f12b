/* The image manager at work, without PHP. Each case is a process: `cases NAME`.
 *
 * A case boots something, takes the image, forks a worker. The worker runs request() again and
 * again; after each roll-back every byte is compared with the image, and holds() looks at what the
 * case itself cares about. Whatever must survive a roll-back lies in the persistent region.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture.h"
#include "region.h"

typedef struct {
    unsigned round, rounds, failures, seen, extended, extensions;
    uint64_t random;
    const char *expected_taint;
} lasting;

static lasting *life;

#define EXPECT(condition) \
    do { \
        if (!(condition)) { \
            dprintf(2, "%s:%d: round %u: %s\n", __FILE__, __LINE__, life->round, #condition); \
            life->failures++; \
        } \
    } while (0)

/* Pages that are mapped, but for the stack, and for what the next request may have again. */
static unsigned pages_of_maps(void)
{
    char line[512];
    unsigned long from, to, bytes = 0;
    image_stats stats;
    FILE *maps = fopen("/proc/self/maps", "r");

    while (fgets(line, sizeof(line), maps)) {
        if (!strstr(line, "[stack]") && sscanf(line, "%lx-%lx", &from, &to) == 2) {
            bytes += to - from;
        }
    }
    fclose(maps);
    image_get_stats(&stats);
    return (unsigned)((bytes - stats.new_bytes) / PAGE);
}

static uint64_t draw(void)
{
    life->random ^= life->random << 13;
    life->random ^= life->random >> 7;
    life->random ^= life->random << 17;
    return life->random;
}

/* ---- in front of libc, as the program that links the image manager ---- */

void *mmap(void *address, size_t len, int protection, int flags, int fd, off_t offset)
{
    return image_mmap(address, len, protection, flags, fd, offset, __builtin_return_address(0));
}

int munmap(void *address, size_t len)
{
    return image_munmap(address, len);
}

void *mremap(void *address, size_t old_len, size_t len, int flags, ...)
{
    va_list rest;
    void *wanted;

    va_start(rest, flags);
    wanted = va_arg(rest, void *);
    va_end(rest);
    return image_mremap(address, old_len, len, flags, wanted);
}

int mprotect(void *address, size_t len, int protection)
{
    return image_mprotect(address, len, protection);
}

/* ---- data: every kind of memory that a program has ---- */

static char in_data[3 * PAGE] = "as it was";
static char in_bss[3 * PAGE];
static _Thread_local int in_tls = 7;
static char *on_heap, *freed_by_request;

static void data_boot(void)
{
    on_heap = strdup("on the heap");
    freed_by_request = malloc(100000);
    memset(freed_by_request, 'f', 100000);
}

static unsigned deep(unsigned depth)
{
    volatile char frame[2000];
    memset((char *)frame, (int)depth, sizeof(frame));
    return depth ? deep(depth - 1) + (unsigned)frame[1] : 0;
}

static void data_request(void)
{
    strcpy(in_data, "changed");
    memset(in_bss, 'x', sizeof(in_bss));
    in_tls = 8;
    strcpy(on_heap, "lost");
    on_heap = NULL;
    free(freed_by_request);
    for (int i = 0; i < 1000; i++) {
        char *leak = malloc(1 + draw() % 3000);
        *leak = 1;
    }
    deep(200);
    setenv("IMAGE_CASE", "set by the request", 1);
    unsetenv("PATH");
}

static void data_holds(void)
{
    EXPECT(strcmp(in_data, "as it was") == 0);
    EXPECT(in_bss[0] == 0 && in_bss[sizeof(in_bss) - 1] == 0);
    EXPECT(in_tls == 7);
    EXPECT(strcmp(on_heap, "on the heap") == 0);
    EXPECT(freed_by_request[99999] == 'f');
    EXPECT(getenv("IMAGE_CASE") == NULL && getenv("PATH") != NULL);
}

/* ---- depth: rolled back from deep below, and from a frame above the one that took the image
 * ---- */

static unsigned from_below(unsigned depth)
{
    volatile char frame[1000];
    memset((char *)frame, (int)depth, sizeof(frame));
    if (depth == 0) {
        if (image_taint()) {
            return 1;
        }
        image_roll_back();
    }
    return from_below(depth - 1) + (unsigned)frame[0];
}

static void depth_request(void)
{
    if (life->round % 2) {
        from_below(life->round % 300);
    }
}

/* ---- mappings ---- */

static char *boot_mapping;

static void mappings_boot(void)
{
    boot_mapping =
        mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(boot_mapping, 'b', 64 * PAGE);
}

static void mappings_request(void)
{
    char *some[40];

    for (int i = 0; i < 40; i++) {
        some[i] = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(some[i], 'n', 8 * PAGE);
    }
    munmap(some[3] + 2 * PAGE, 2 * PAGE); /* a hole */
    munmap(some[4], 8 * PAGE);
    some[5] = mremap(some[5], 8 * PAGE, 80 * PAGE, MREMAP_MAYMOVE);
    some[5][79 * PAGE] = 1;
    mprotect(some[6], PAGE, PROT_READ);
    EXPECT(munmap(boot_mapping + PAGE, 4 * PAGE) == 0);
    EXPECT(mremap(boot_mapping, 64 * PAGE, 128 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED);
    memset(boot_mapping, 'x', 64 * PAGE);
}

/* A library that seeds itself anew when it finds zeros: it has to after a roll-back as after a
 * fork. */
static char *mark_of_forks;

static void forks_boot(void)
{
    mark_of_forks = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(madvise(mark_of_forks, PAGE, MADV_WIPEONFORK) == 0);
    *mark_of_forks = 1;
}

static void forks_request(void)
{
    *mark_of_forks = 1;
}

static void forks_hold(void)
{
    EXPECT(*mark_of_forks == 0);
}

static void no_mapping_stays(void)
{
    if (life->round == 2) {
        life->seen = pages_of_maps();
    } else if (life->round > 2) {
        EXPECT(pages_of_maps() == life->seen);
    }
}

static void mappings_hold(void)
{
    EXPECT(boot_mapping[PAGE] == 'b' && boot_mapping[64 * PAGE - 1] == 'b');
    no_mapping_stays();
}

/* ---- break: the heap grows far and goes back ---- */

static void break_request(void)
{
    char *big = malloc(20 << 20), *bigger;
    memset(big, 1, 20 << 20);
    bigger = malloc(200 << 20);
    bigger[100 << 20] = 1;
    free(big);
}

static void break_holds(void)
{
    EXPECT((uintptr_t)sbrk(0) == region->program_break);
}

/* ---- code: memory that is written to and executed ---- */

static unsigned char *code;

static int run_code(void)
{
    int (*function)(void);
    memcpy(&function, &code, sizeof(code));
    return function();
}

static void write_code(int answer)
{
#if defined(__x86_64__)
    unsigned char text[] = {0xb8, (unsigned char)answer, 0, 0, 0, 0xc3}; /* mov eax, answer; ret */
#elif defined(__aarch64__)
    uint32_t text[] = {0x52800000u | (uint32_t)answer << 5, 0xd65f03c0u}; /* mov w0, answer; ret */
#else
#error "no code for this processor"
#endif
    memcpy(code, text, sizeof(text));
    __builtin___clear_cache((char *)code, (char *)code + sizeof(text));
}

static void code_boot(void)
{
    code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    write_code(42);
}

static void code_request(void)
{
    EXPECT(run_code() == 42);
    write_code(43);
    EXPECT(run_code() == 43);
}

static void code_holds(void)
{
    EXPECT(run_code() == 42);
}

/* ---- calls: the kernel writes into pages of the image ---- */

static char from_kernel[16 * PAGE];

static void calls_request(void)
{
    int pair[2], zero = open("/dev/zero", O_RDONLY), random = open("/dev/urandom", O_RDONLY);
    struct rusage *usage = (struct rusage *)(from_kernel + 8 * PAGE);

    EXPECT(pipe(pair) == 0);
    EXPECT(write(pair[1], "through the kernel", 19) == 19);
    EXPECT(read(pair[0], from_kernel + PAGE - 5, 19) == 19);
    EXPECT(strcmp(from_kernel + PAGE - 5, "through the kernel") == 0);
    EXPECT(read(random, from_kernel + 4 * PAGE, 3 * PAGE) == 3 * PAGE);
    EXPECT(read(zero, from_kernel + 4 * PAGE, PAGE) == PAGE);
    EXPECT(getrusage(RUSAGE_SELF, usage) == 0);
    close(zero);
    close(random);
    close(pair[0]);
    close(pair[1]);
}

static void calls_hold(void)
{
    for (size_t i = 0; i < sizeof(from_kernel); i++) {
        if (from_kernel[i]) {
            EXPECT(from_kernel[i] == 0);
            return;
        }
    }
}

/* ---- rounds: random writes to random places, thousands of times ---- */

enum { FIELD = 2 << 20 };
static unsigned char *field;

static void rounds_boot(void)
{
    field = malloc(FIELD);
    for (size_t i = 0; i < FIELD; i++) {
        field[i] = (unsigned char)(i * 2654435761u >> 13);
    }
    life->rounds = 10000;
}

static void rounds_request(void)
{
    unsigned writes = draw() % 200;

    for (unsigned i = 0; i < writes; i++) {
        /* Mostly the same few pages, as programs do, at first sometimes any. */
        size_t at = draw() % 10 || life->round > 5000 ? draw() % (64 * PAGE) : draw() % FIELD;
        field[at] = (unsigned char)draw();
    }
    if (draw() % 16 == 0) {
        memset(malloc(draw() % 100000 + 1), 1, 1);
    }
}

static void rounds_hold(void)
{
    image_stats stats;
    image_get_stats(&stats);
    /* Pages that are not written to any more leave the set of dirty pages again: it stays far below
     * all that ever was in it. */
    if (life->round == 10000) {
        EXPECT(stats.dirty_pages < FIELD / PAGE / 2);
        EXPECT(stats.roll_backs >= 10000);
    }
}

/* ---- libc: memory that it maps by itself ---- */

static void libc_request(void)
{
    setlocale(LC_ALL, "C.UTF-8");
    dlopen("libdl.so.2", RTLD_NOW);
    dlopen("libutil.so.1", RTLD_NOW);
    dlopen("libresolv.so.2", RTLD_NOW);
}

static void libc_holds(void)
{
    EXPECT(strcmp(setlocale(LC_ALL, NULL), "C") == 0);
    no_mapping_stays();
}

/* ---- chunks: what one request had mapped goes to the next as it is ---- */

static void chunks_boot(void)
{
    image_reuse_for((void *)&chunks_boot);
}

/* Made as PHP's allocator makes it: wider, then cut to alignment. */
static char *aligned_chunk(void)
{
    char *wide =
        mmap(NULL, 2 * CHUNK - PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *chunk = (char *)(((uintptr_t)wide + CHUNK - 1) / CHUNK * CHUNK);

    EXPECT(wide != MAP_FAILED);
    if (chunk > wide) {
        munmap(wide, (size_t)(chunk - wide));
    }
    munmap(chunk + CHUNK, (size_t)(wide + 2 * CHUNK - PAGE - (chunk + CHUNK)));
    return chunk;
}

static void chunks_request(void)
{
    char *chunk, *wide;

    if (life->round == 1) {
        chunk = aligned_chunk();
        strcpy(chunk, "first");
        strcpy(chunk + PAGE, "second page");
        life->seen = (unsigned)((uintptr_t)chunk >> 21);
        return;
    }
    chunk = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT((unsigned)((uintptr_t)chunk >> 21) == life->seen);
    EXPECT(chunk[0] == 0);
    EXPECT(strcmp(chunk + PAGE, "second page") == 0);
    /* Given back and taken again within one request. */
    EXPECT(munmap(chunk, CHUNK) == 0);
    EXPECT(mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == chunk);
    /* Another size is new memory. */
    wide = mmap(NULL, 3 * CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(wide[0] == 0);
}

/* ---- chunks that a request treats otherwise than whole do not reach the next one ---- */

static void changed_chunks_request(void)
{
    char *chunks[4], *grown;

    for (int i = 0; i < 4; i++) {
        chunks[i] = life->round == 1 ? aligned_chunk()
                                     : mmap(NULL, CHUNK, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(chunks[i], 1, CHUNK); /* all of it is there, and can be written to */
    }
    if (life->round == 1) {
        return;
    }
    EXPECT(munmap(chunks[0] + CHUNK / 2, CHUNK / 2) == 0);
    EXPECT(mprotect(chunks[1], PAGE, PROT_READ) == 0);
    EXPECT(mmap(chunks[2], PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
           chunks[2]);
    grown = mremap(chunks[3], CHUNK, 2 * CHUNK, MREMAP_MAYMOVE);
    EXPECT(grown != MAP_FAILED && munmap(grown, 2 * CHUNK) == 0);
}

/* ---- spare memory: the same mappings at each request cost no look at the page map, and are zero
 * each time; nor do files ---- */

static char *mapped(size_t len, int protection)
{
    char *at = mmap(NULL, len, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    EXPECT(at != MAP_FAILED);
    for (size_t i = 0; i < len; i += 16) {
        EXPECT(at[i] == 0);
    }
    for (size_t i = 0; i < len; i += 3 * PAGE) {
        at[i + i % 1000 / 16 * 16] = 'w';
    }
    return at;
}

static void read_a_file(void)
{
    int fd = open("/proc/self/exe", O_RDONLY);
    volatile const char *at = mmap(NULL, 12 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);

    for (int i = 0; i < 12; i++) {
        in_data[i] = at[i * PAGE];
    }
    munmap((void *)at, 12 * PAGE);
    close(fd);
}

static void spare_request(void)
{
    char *at = mapped(64 << 10, PROT_READ | PROT_WRITE | PROT_EXEC);

    read_a_file();
    mapped(200 << 10, PROT_READ | PROT_WRITE);
    EXPECT(munmap(at, 64 << 10) == 0);
    /* Given back a moment ago and not cleared yet. */
    at = mapped(64 << 10, PROT_READ | PROT_WRITE | PROT_EXEC);
    EXPECT(munmap(at, 64 << 10) == 0);
    /* Seldom wanted: unmapped after a while, and new again. */
    if (life->round % 200 == 100) {
        mapped(1 << 20, PROT_READ | PROT_WRITE);
    }
}

static void spare_boot(void)
{
    life->rounds = 300;
}

static void spare_holds(void)
{
    image_stats stats;

    image_get_stats(&stats);
    if (life->round == 5) {
        life->seen = (unsigned)stats.scans;
    } else if (life->round > 5 && life->round < 64) { /* then dirty pages are looked at */
        EXPECT(stats.scans == life->seen);
    }
    EXPECT(stats.new_bytes < (1 << 20) || (life->round >= 100 && life->round < 166) ||
           life->round == 300);
}

/* ---- shared memory: pages of it that were asked for cost no look at the page map ---- */

/* Far apart: the kernel brings neighbours, too. */
enum { PLACES = 64, PLACE = 32 * PAGE };

static char *shared;

static void shared_boot(void)
{
    shared =
        mmap(NULL, PLACES * PLACE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void shared_request(void)
{
    char *at = shared + life->round % PLACES * PLACE;

    image_populate_shared(at, 2 * PAGE);
    at[0]++;
    at[PAGE]++;
}

static void shared_holds(void)
{
    image_stats stats;

    image_get_stats(&stats);
    if (life->round == 5) {
        life->seen = (unsigned)stats.scans;
    } else if (life->round > 5 && life->round < PLACES) {
        EXPECT(stats.scans == life->seen);
    }
}

/* ---- signals: a worker can signal itself, although libc's notes are the zygote's ---- */

static void on_signal(int number)
{
    (void)number;
    life->seen++;
}

static void signals_boot(void)
{
    signal(SIGUSR1, on_signal);
}

static void signals_request(void)
{
    unsigned before = life->seen;
    EXPECT(raise(SIGUSR1) == 0);
    EXPECT(life->seen == before + 1);
}

/* ---- taint: what cannot be undone is noted ---- */

static void *sleep_for_ever(void *nothing)
{
    pause();
    return nothing;
}

static void protection_request(void)
{
    mprotect(boot_mapping, PAGE, PROT_READ);
}

static void protection_boot(void)
{
    mappings_boot();
    life->expected_taint = "a request changed the protection of memory of the image";
}

static void over_request(void)
{
    mmap(boot_mapping, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void over_boot(void)
{
    mappings_boot();
    life->expected_taint = "a request mapped something over memory of the image";
}

static void behind_request(void)
{
    syscall(SYS_munmap, boot_mapping, PAGE); /* past our functions */
    boot_mapping = NULL;
    image_roll_back();
}

static void behind_boot(void)
{
    mappings_boot();
    life->expected_taint = "memory of the image is mapped otherwise than it was";
}

static void left_thread_request(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, sleep_for_ever, NULL);
}

static void left_thread_boot(void)
{
    life->expected_taint = "a thread was left behind";
}

static void too_many_request(void)
{
    for (int i = 0; i < MOST_MAPPINGS + 1; i++) {
        mmap(NULL, PAGE, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
}

static void too_many_boot(void)
{
    life->expected_taint = "a request made too many memory mappings";
}

/* ---- extended: a process's own private delta to the image ---- */

static char *own_mapping, *own_block;

static void extend_boot(void)
{
    mappings_boot();
    data_boot();
    life->rounds = 1000;
    life->extensions = 1;
}

/* Writes to pages of the image, makes the break grow, maps memory, unmaps some of it again. */
static void extend(void)
{
    char *gone = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    strcpy(in_data, "the addition's");
    in_tls = 70;
    memset(boot_mapping + 3 * PAGE, 'o', PAGE);
    own_mapping = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(own_mapping, 'm', CHUNK / 2);
    own_block = malloc(8 << 20);
    memset(own_block, 'h', 8 << 20);
    memset(gone, 'g', 8 * PAGE);
    munmap(gone, 8 * PAGE);
}

static void extend_request(void)
{
    if (!life->extended) {
        mappings_request();
        return;
    }
    if (life->round % 100 == 0) {
        mappings_request();
        break_request();
        EXPECT(munmap(own_mapping + PAGE, PAGE) == 0); /* a part of the image: stays */
    }
    strcpy(in_data, "a request's");
    in_tls = 8;
    for (unsigned i = draw() % 20; i > 0; i--) {
        own_mapping[draw() % CHUNK] = 'x';
        own_block[draw() % (8 << 20)] = 'x';
        boot_mapping[draw() % (64 * PAGE)] = 'x';
    }
    memset(malloc(draw() % 300000 + 1), 1, 1);
    own_mapping = own_block = NULL;
}

static void extend_holds(void)
{
    if (!life->extended) {
        return;
    }
    EXPECT(strcmp(in_data, "the addition's") == 0);
    EXPECT(in_tls == 70);
    EXPECT(boot_mapping[3 * PAGE] == 'o' && boot_mapping[4 * PAGE] == 'b');
    EXPECT(own_mapping[0] == 'm' && own_mapping[CHUNK / 2 - 1] == 'm' &&
           own_mapping[CHUNK - 1] == 0);
    EXPECT(own_block[0] == 'h' && own_block[(8 << 20) - 1] == 'h');
    EXPECT((uintptr_t)sbrk(0) == region->program_break);
    no_mapping_stays();
}

/* ---- extended-again: the delta grows, and is written over ---- */

enum { EXTENSIONS = 4 };

static char *more_mappings[EXTENSIONS];

static void extend_again_boot(void)
{
    extend_boot();
    life->extensions = EXTENSIONS;
}

/* Of the extension with this number. */
static char mark_of(unsigned number)
{
    return (char)('0' + number);
}

/* Writes to what is in the delta already, to pages beside it, and to others of the image. */
static void extend_again(void)
{
    unsigned now = life->extended, last = now - 1;

    snprintf(in_data, sizeof(in_data), "extension %u", now);
    in_tls = (int)now;
    memset(boot_mapping + 3 * PAGE, mark_of(now), PAGE);
    memset(boot_mapping + (8 + now) * PAGE, mark_of(now), PAGE);
    memset(boot_mapping + (40 + 3 * now) * PAGE, mark_of(now), PAGE);
    more_mappings[last] =
        mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (unsigned i = 0; i < now; i++) {
        more_mappings[i][now * PAGE] = mark_of(now);
    }
    own_block = malloc(4 << 20);
    memset(own_block, mark_of(now), 4 << 20);
}

static void extend_again_request(void)
{
    mappings_request();
    strcpy(in_data, "a request's");
    in_tls = 80;
    for (unsigned i = draw() % 20; i > 0; i--) {
        boot_mapping[draw() % (64 * PAGE)] = 'x';
        if (life->extended > 0) {
            more_mappings[draw() % life->extended][draw() % CHUNK] = 'x';
            own_block[draw() % (4 << 20)] = 'x';
        }
    }
    memset(more_mappings, 0, sizeof(more_mappings));
}

static void extend_again_holds(void)
{
    unsigned now = life->extended;

    if (now == 0) {
        return;
    }
    EXPECT(in_data[strlen("extension ")] == mark_of(now) && in_tls == (int)now);
    EXPECT(boot_mapping[3 * PAGE] == mark_of(now) && boot_mapping[4 * PAGE] == 'b');
    EXPECT(own_block[0] == mark_of(now) && own_block[(4 << 20) - 1] == mark_of(now));
    for (unsigned number = 1; number <= EXTENSIONS; number++) {
        char beside = boot_mapping[(8 + number) * PAGE];
        char apart = boot_mapping[(40 + 3 * number) * PAGE];
        char expected = number <= now ? mark_of(number) : 'b';
        EXPECT(beside == expected && apart == expected);
        for (unsigned i = 0; i < now; i++) {
            EXPECT(more_mappings[i][number * PAGE] ==
                   (number <= now && i < number ? mark_of(number) : 0));
        }
    }
    EXPECT((uintptr_t)sbrk(0) == region->program_break);
    no_mapping_stays();
}

/* ---- refused: threads at boot ---- */

static void threads_boot(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, sleep_for_ever, NULL);
}

/* ---- a page of the image that somebody holds ---- */

/* A pipe holds the page of a file until another process has read it, half a second later. */
static void held_boot(void)
{
    int file = memfd_create("held", MFD_CLOEXEC | MFD_ALLOW_SEALING), ends[2];
    char *page, read_again[PAGE];
    pid_t reader;

    EXPECT(ftruncate(file, PAGE) == 0 && pipe(ends) == 0);
    page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    memset(page, 'x', PAGE);
    EXPECT(vmsplice(ends[1], &(struct iovec){page, PAGE}, 1, 0) == PAGE);
    munmap(page, PAGE);
    EXPECT(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) == -1);
    reader = fork();
    if (reader == 0) {
        usleep(500 * 1000);
        _exit(read(ends[0], read_again, PAGE) != PAGE);
    }
    capture_seal(file);
    EXPECT(fcntl(file, F_GET_SEALS) & F_SEAL_WRITE);
    waitpid(reader, NULL, 0);
    close(file);
    close(ends[0]);
    close(ends[1]);
}

static void nothing(void)
{
}

static const struct {
    const char *name;
    void (*boot)(void), (*request)(void), (*holds)(void);
    void (*extend)(void); /* NULL: the image is all */
} cases[] = {
    {"data", data_boot, data_request, data_holds, NULL},
    {"depth", nothing, depth_request, nothing, NULL},
    {"mappings", mappings_boot, mappings_request, mappings_hold, NULL},
    {"forks", forks_boot, forks_request, forks_hold, NULL},
    {"break", nothing, break_request, break_holds, NULL},
    {"code", code_boot, code_request, code_holds, NULL},
    {"calls", nothing, calls_request, calls_hold, NULL},
    {"rounds", rounds_boot, rounds_request, rounds_hold, NULL},
    {"libc", nothing, libc_request, libc_holds, NULL},
    {"chunks", chunks_boot, chunks_request, nothing, NULL},
    {"changed-chunks", chunks_boot, changed_chunks_request, nothing, NULL},
    {"spare", spare_boot, spare_request, spare_holds, NULL},
    {"shared", shared_boot, shared_request, shared_holds, NULL},
    {"held", held_boot, nothing, nothing, NULL},
    {"signals", signals_boot, signals_request, nothing, NULL},
    {"taint-protection", protection_boot, protection_request, nothing, NULL},
    {"taint-over", over_boot, over_request, nothing, NULL},
    {"taint-behind", behind_boot, behind_request, nothing, NULL},
    {"taint-thread", left_thread_boot, left_thread_request, nothing, NULL},
    {"taint-mappings", too_many_boot, too_many_request, nothing, NULL},
    {"extended", extend_boot, extend_request, extend_holds, extend},
    {"extended-again", extend_again_boot, extend_again_request, extend_again_holds, extend_again},
    {"refused-threads", threads_boot, nothing, nothing, NULL},
};

static void end_if_tainted(void)
{
    if (life->expected_taint) {
        if (!image_taint() || strcmp(image_taint(), life->expected_taint) != 0) {
            dprintf(2, "taint: %s\n", image_taint() ? image_taint() : "none");
            _exit(1);
        }
        _exit(0);
    }
}

static int page_map(void)
{
    return open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
}

static int work(size_t number)
{
    int wrong;

    switch (image_take()) {
    case IMAGE_REFUSED:
        printf("refused: %s\n", image_reason());
        return 3;
    case IMAGE_TAKEN: {
        int failed = 0;
        for (int worker = 0; worker < 3; worker++) {
            fflush(stdout);
            if (fork() == 0) {
                /* shared until adopted: only this worker writes now */
                life->random += (unsigned)worker * 977 + 1;
                if (image_adopt(page_map()) != 0) {
                    perror("image_adopt");
                    _exit(1);
                }
                if (getenv("WITHOUT_PAGE_SCAN")) {
                    region->has_page_scan = 0;
                }
                strcpy(in_data, "what the zygote did since");
                image_roll_back();
            }
            int status = 0;
            wait(&status);
            if (status != 0) {
                dprintf(2, "worker %d ended with status %#x\n", worker, (unsigned)status);
                failed = 1;
            }
        }
        return failed;
    }
    case IMAGE_RESTORED:
        break;
    }
    wrong = image_check(life->rounds < 1000 || life->round % 100 == 0);
    if (life->round > 0) {
        end_if_tainted();
    }
    EXPECT(wrong == 0);
    EXPECT(image_taint() == NULL);
    cases[number].holds();
    if (life->failures > 5) {
        _exit(1);
    }
    if (life->round == life->rounds) {
        _exit(life->failures != 0);
    }
    /* A few requests go before, as for a worker whose database is not there yet. */
    if (life->extended < life->extensions && life->round == (life->extended ? 150 : 5)) {
        life->extended++;
        life->round = 1;
        cases[number].extend();
        EXPECT(image_extend() == 0);
        image_roll_back();
    }
    life->round++;
    cases[number].request();
    if (image_taint()) {
        end_if_tainted();
    }
    image_roll_back();
}

int main(int count, char **words)
{
    if (count != 2) {
        return 2;
    }
    image_prepare();
    life = image_open(sizeof(lasting), page_map());
    life->rounds = 100;
    life->random = 88172645463325252ull;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        if (strcmp(cases[i].name, words[1]) == 0) {
            cases[i].boot();
            return work(i);
        }
    }
    return 2;
}
