/* Code and constants of the program and its libraries: memory that must not be written to. Code in
 * C may make it writable, or put other memory in its place, by system calls that no function of
 * ours sees; the next visitor's code would be what it has left there.
 *
 * Only whether such memory is where it was can be seen: code that changes it and puts the mapping
 * back is not noticed. Libraries that come later do not matter. */
#include <stdio.h>
#include <stdlib.h>

#include "process/program_memory.h"

typedef struct {
    unsigned long from, to;
} range;

/* In the order of their addresses, as the kernel lists them. */
static range *learned;
static size_t learned_count;

typedef void (*visitor)(range found, void *context);

/* -1: the kernel does not say. */
static int visit(visitor see, void *context)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t room = 0;

    if (!maps) {
        return -1;
    }
    while (getline(&line, &room, maps) > 0) {
        char rights[5] = "";
        unsigned long inode = 0;
        range found;
        if (sscanf(line, "%lx-%lx %4s %*s %*s %lu", &found.from, &found.to, rights, &inode) == 4 &&
            inode != 0 && rights[1] == '-' && rights[3] == 'p') {
            see(found, context);
        }
    }
    free(line);
    fclose(maps);
    return 0;
}

static void learn(range found, void *room)
{
    if (learned_count == *(size_t *)room) {
        size_t wanted = *(size_t *)room ? *(size_t *)room * 2 : 256;
        range *more = realloc(learned, wanted * sizeof(*more));
        if (!more) {
            return;
        }
        learned = more;
        *(size_t *)room = wanted;
    }
    learned[learned_count++] = found;
}

void program_memory_learn(void)
{
    size_t room = 0;

    visit(learn, &room);
}

static void compare(range found, void *context)
{
    size_t *at = context;

    if (*at < learned_count && learned[*at].from == found.from && learned[*at].to == found.to) {
        ++*at;
    }
}

int program_memory_is_whole(void)
{
    size_t at = 0;

    return visit(compare, &at) == 0 && at == learned_count;
}
