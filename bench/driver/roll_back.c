/* What a roll-back costs: a process whose requests write one word to each of PAGES pages, so many
 * pages apart. Prints what a request and a roll-back take, in ns: the first one, for which the
 * kernel copies pages and the page map is looked at; and the median of those after it, for which
 * all pages are hot.
 *
 *   roll_back PAGES APART
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "image.h"

enum { PAGE = 4096, MEMORY = 32 << 20, ROUNDS = 501 };

typedef struct {
    int has_begun, round;
    uint64_t request_ns[ROUNDS], roll_back_ns[ROUNDS];
} lasting;

static char memory[MEMORY];
static lasting *life;

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static uint64_t median(uint64_t *of)
{
    qsort(of, ROUNDS, sizeof(*of), compare);
    return of[ROUNDS / 2];
}

static void finish(void)
{
    uint64_t first_request = life->request_ns[0], first = life->roll_back_ns[0];

    printf("%lu %lu %lu %lu\n", (unsigned long)first_request, (unsigned long)first,
           (unsigned long)median(life->request_ns), (unsigned long)median(life->roll_back_ns));
    fflush(stdout);
    _exit(0);
}

/* Comes back here after each roll-back. */
static int serve(size_t pages, size_t apart)
{
    image_stats stats;
    uint64_t began;

    switch (image_take()) {
    case IMAGE_REFUSED:
        fprintf(stderr, "no image: %s\n", image_reason());
        return 1;
    case IMAGE_TAKEN: {
        int status = 1;
        if (fork() == 0) {
            if (image_adopt(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) != 0) {
                perror("image_adopt");
                _exit(1);
            }
            image_roll_back();
        }
        wait(&status);
        return status != 0;
    }
    case IMAGE_RESTORED:
        break;
    }
    if (life->has_begun) {
        image_get_stats(&stats);
        life->roll_back_ns[life->round] = stats.last_ns;
        life->round++;
    }
    life->has_begun = 1; /* the roll-back before was the one with which a worker begins */
    if (life->round == ROUNDS) {
        finish();
    }
    began = now();
    for (size_t i = 0; i < pages; i++) {
        memory[i * apart * PAGE + i * 64 % PAGE]++;
    }
    life->request_ns[life->round] = now() - began;
    image_roll_back();
}

int main(int count, char **words)
{
    size_t pages = count == 3 ? strtoul(words[1], NULL, 10) : 0;
    size_t apart = count == 3 ? strtoul(words[2], NULL, 10) : 0;

    if (pages == 0 || apart == 0 || pages * apart * PAGE > MEMORY) {
        fprintf(stderr, "roll_back PAGES APART, of at most %d pages\n", MEMORY / PAGE);
        return 2;
    }
    image_prepare();
    life = image_open(sizeof(*life), open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    if (!life) {
        perror("image_open");
        return 1;
    }
    memset(memory, 'b', sizeof(memory));
    return serve(pages, apart);
}
