/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that use a file store, told apart across restarts. */
#include "store/user.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Start time of a process in clock ticks since boot; 0: there is none, or it is a zombie or about
 * to become one (fields 3 state, 9 flags, 22 start time, 31 pending signals; see proc(5)). */
static unsigned long long start_time(int pid)
{
    enum { EXITING = 0x4, KILL_PENDING = 1 << 8 };
    char path[64], text[1024], state;
    unsigned long flags, signals;
    unsigned long long start;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    const char *rest = strrchr(text, ')'); /* the name before it may contain anything */
    if (!rest ||
        sscanf(rest + 1,
               " %c %*s %*s %*s %*s %*s %lu %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu "
               "%*s %*s %*s %*s %*s %*s %*s %*s %lu",
               &state, &flags, &start, &signals) != 4)
        return 0;
    bool ends = state == 'Z' || state == 'X' || (flags & EXITING) || (signals & KILL_PENDING);
    return ends ? 0 : start;
}

static void place(char *text, size_t size)
{
    char boot[64] = "", space[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (fscanf(file, "%63s", boot) != 1) boot[0] = '\0';
        fclose(file);
    }
    ssize_t length = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    if (length < 0) space[0] = '\0';
    snprintf(text, size, "%s/%s", *boot ? boot : "?", *space ? space : "?");
}

void ts_user_identity(char *text, size_t size)
{
    char here[160];
    place(here, sizeof here);
    snprintf(text, size, "%s %d %llu", here, (int)getpid(), start_time((int)getpid()));
}

bool ts_user_is_gone(const char *identity, int *pid)
{
    char here[160], there[160];
    unsigned long long start;
    place(here, sizeof here);
    if (strchr(here, '?') || sscanf(identity, "%159s %d %llu", there, pid, &start) != 3)
        return false;
    return strcmp(here, there) == 0 && start_time(*pid) != start;
}
