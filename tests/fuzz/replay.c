/* SPDX-License-Identifier: Apache-2.0 */
/* A fuzz target without its fuzzer: replay-NAME FOLDER gives it every file of the folder. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In a block of just that size, so that a sanitizer sees what reads beyond it. */
static int replay(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) return 0;
    long size = ftell(f);
    rewind(f);
    uint8_t *data = size >= 0 ? malloc((size_t)size ? (size_t)size : 1) : NULL;
    if (!data || fread(data, 1, (size_t)size, f) != (size_t)size) exit(2);
    fclose(f);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    return 1;
}

int main(int argc, char **argv)
{
    DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
    struct dirent *entry;
    int files = 0;
    while (dir && (entry = readdir(dir))) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        if (entry->d_name[0] != '.') files += replay(path);
    }
    if (dir) closedir(dir);
    fprintf(stderr, "%d files\n", files);
    return files > 0 ? 0 : 1;
}
