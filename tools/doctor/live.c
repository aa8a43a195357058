/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of this machine, through /proc: they need not answer, and may be stopped. */
#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "comm/recorder.h"
#include "doctor.h"

static bool parent_of(int pid, int *parent, char *state)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *from = fopen(path, "re");
    size_t got = from ? fread(line, 1, sizeof line - 1, from) : 0;
    if (from) fclose(from);
    line[got] = '\0';
    const char *end = strrchr(line, ')'); /* the name may hold anything */
    return end && sscanf(end + 1, " %c %d", state, parent) == 2;
}

/* Is it pid, or started below it? */
static bool descends(int pid, int from)
{
    char state;
    for (int depth = 0; pid > 1 && depth < 64; depth++) {
        if (pid == from) return true;
        if (!parent_of(pid, &pid, &state)) return false;
    }
    return false;
}

static bool is_meant(const ts_recorder_memory *m, int pid, const char *job)
{
    char *end;
    long number = job ? strtol(job, &end, 10) : 0;
    if (!job || strncmp(m->run_id, job, sizeof m->run_id) == 0) return true;
    if (strncmp(m->master, job, sizeof m->master) == 0) return true;
    return number > 0 && !*end && descends(pid, (int)number);
}

static bool read_one(trace *out, const ts_recorder_memory *m, int pid)
{
    char *text = NULL, why[128], state = 0;
    size_t size = 0;
    int parent;
    FILE *to = open_memstream(&text, &size);
    if (!to) return false;
    bool good = ts_recorder_write(to, m, NULL) == TS_OK;
    good = fclose(to) == 0 && good && trace_parse(out, text, size, why, sizeof why);
    free(text);
    if (good && parent_of(pid, &parent, &state)) out->process = state;
    return good;
}

static int by_rank(const void *a, const void *b)
{
    return ((const trace *)a)->rank - ((const trace *)b)->rank;
}

static int add_process(trace **list, int n, int pid, const char *job)
{
    const ts_recorder_memory *m;
    for (int nth = 0; (m = ts_recorder_map(pid, -1, nth)); nth++) {
        /* A forked child has its parent's descriptors. */
        bool again = false;
        for (int i = 0; i < n; i++)
            again |= (*list)[i].pid == m->pid && (*list)[i].rank == atomic_load(&m->rank);
        if (!again && is_meant(m, pid, job)) {
            trace *more = realloc(*list, ((size_t)n + 1) * sizeof *more);
            if (more) *list = more;
            if (more && read_one(&more[n], m, pid)) n++;
        }
        ts_recorder_unmap(m);
    }
    return n;
}

int live_find(trace **out, const char *job)
{
    int n = 0;
    DIR *folder = opendir("/proc");
    *out = NULL;
    if (!folder) return 0;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (isdigit((unsigned char)entry->d_name[0]))
            n = add_process(out, n, atoi(entry->d_name), job);
    closedir(folder);
    if (n) qsort(*out, (size_t)n, sizeof **out, by_rank);
    return n;
}
