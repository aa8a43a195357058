/* SPDX-License-Identifier: Apache-2.0 */
/* What a process holds. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "faults.h"

/* Entries of a folder of /proc, at most one of them the folder itself. */
static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;
    while (dir && readdir(dir)) n++;
    if (dir) closedir(dir);
    return n;
}

holdings holdings_now(void)
{
    ts_memory_stats memory;
    ts_memory_read(&memory);
    return (holdings){count_entries("/proc/self/fd"), count_entries("/proc/self/task"),
                      memory.current_total};
}

static void list_threads(char *out, size_t room)
{
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;
    size_t used = 0;
    while (dir && (entry = readdir(dir)) && used + 40 < room) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *f = fopen(path, "r");
        if (!f) continue;
        if (fgets(name, sizeof name, f)) name[strcspn(name, "\n")] = '\0';
        used += (size_t)snprintf(out + used, room - used, " %s", name);
        fclose(f);
    }
    if (dir) closedir(dir);
}

static void list_files(char *out, size_t room)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    size_t used = 0;
    while (dir && (entry = readdir(dir)) && used + 100 < room) {
        char path[300], to[80];
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t n = readlink(path, to, sizeof to - 1);
        if (n < 0) continue;
        to[n] = '\0';
        used += (size_t)snprintf(out + used, room - used, " %s=%s", entry->d_name, to);
    }
    if (dir) closedir(dir);
}

/* Threads that have been joined leave /proc a moment later. */
void holdings_compare(seat *s, holdings before)
{
    holdings after = holdings_now();
    for (int i = 0; i < 100 && after.threads > before.threads; i++) {
        usleep(2000);
        after = holdings_now();
    }
    char list[800] = "";
    if (after.files > before.files) {
        list_files(list, sizeof list);
        complain(s, "left behind: %d descriptors before, %d after:%s", before.files, after.files,
                 list);
    }
    if (after.tensor_bytes > before.tensor_bytes)
        complain(s, "left behind: %lld bytes of tensors before, %lld after",
                 (long long)before.tensor_bytes, (long long)after.tensor_bytes);
    if (after.threads > before.threads) {
        list_threads(list, sizeof list);
        complain(s, "left behind: %d threads before, %d after:%s", before.threads, after.threads,
                 list);
    }
}
