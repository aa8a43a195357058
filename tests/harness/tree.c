/* SPDX-License-Identifier: Apache-2.0 */
/* Folders and processes that a test leaves behind. */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness.h"

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)type, (void)where;
    remove(path);
    return 0;
}

void ts_remove_tree(const char *path) { nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS); }

/* Parent of a process, -1 if it has gone. */
static pid_t parent_of(const char *pid)
{
    char path[300], text[512];
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0) return -1;
    text[got] = 0;
    char *after_name = strrchr(text, ')');
    int parent;
    return after_name && sscanf(after_name + 1, " %*c %d", &parent) == 1 ? parent : -1;
}

int ts_list_children(pid_t *out, int max)
{
    int count = 0;
    pid_t self = getpid();
    DIR *proc = opendir("/proc");
    if (!proc) return 0;
    for (struct dirent *entry; (entry = readdir(proc)) && count < max;)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && parent_of(entry->d_name) == self)
            out[count++] = atoi(entry->d_name);
    closedir(proc);
    return count;
}

void ts_process_name(char *out, size_t size, pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, out, size - 1);
    if (fd >= 0) close(fd);
    if (got < 0) got = 0;
    for (ssize_t i = 0; i + 1 < got; i++)
        if (!out[i]) out[i] = ' ';
    out[got] = 0;
}

bool ts_program_exists(const char *program)
{
    if (strchr(program, '/')) return access(program, X_OK) == 0;
    const char *path = getenv("PATH");
    char file[4096];
    while (path && *path) {
        size_t length = strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/%s", (int)length, path, program);
        if (access(file, X_OK) == 0) return true;
        path += length + (path[length] == ':');
    }
    return false;
}
