/* The files of a boot of which no image could be taken, handed from the process that has booted,
 * and ends, to the next zygote: through a file in memory, record by record.
 *
 * Both are the same program, unless it was replaced in between: each record says its size. */
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sealed/outdated.h"
#include "shim/shim.h"

typedef struct {
    size_t size, path_length;
    known_file file; /* without its path, which follows */
} record;

static void write_down(const known_file *file, void *out)
{
    const record r = {.size = sizeof(r), .path_length = strlen(file->path), .file = *file};

    fwrite(&r, sizeof(r), 1, out);
    fwrite(file->path, r.path_length, 1, out);
}

int shim_save_boot_files(void)
{
    int fd = memfd_create("boot-files", MFD_CLOEXEC), copy = fd < 0 ? -1 : dup(fd);
    FILE *out = copy < 0 ? NULL : fdopen(copy, "w");
    int failed;

    if (!out) {
        close(fd);
        return -1;
    }
    outdated_visit(write_down, out);
    failed = ferror(out);
    failed |= fclose(out) != 0;
    if (failed) {
        close(fd);
        return -1;
    }
    return fd;
}

void shim_load_boot_files(int fd)
{
    char path[PATH_MAX];
    FILE *in = fdopen(fd, "r");
    record r;

    if (!in) {
        close(fd);
        return;
    }
    rewind(in);
    while (fread(&r, sizeof(r), 1, in) == 1 && r.size == sizeof(r) &&
           r.path_length < sizeof(path) && fread(path, 1, r.path_length, in) == r.path_length) {
        path[r.path_length] = 0;
        r.file.path = path;
        outdated_add(&r.file);
    }
    fclose(in);
    outdated_without_cache();
}
