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

/* Ranks whose program names the meeting point have neither ID nor address. */
static char *job_of(const ts_recorder_memory *m, int parent)
{
    char text[2 * sizeof m->master + 32];
    int run = (int)sizeof m->run_id - 1, master = (int)sizeof m->master - 1;
    if (*m->run_id || *m->master)
        snprintf(text, sizeof text, "%.*s%s%.*s", run, m->run_id,
                 *m->run_id && *m->master ? " at " : "", master, m->master);
    else
        snprintf(text, sizeof text, "of process %d", parent);
    return strdup(text);
}

/* A recorder that was found; resolving what it holds may take long, so that comes later. */
typedef struct found {
    const ts_recorder_memory *memory;
    int pid;
    char *job;
    bool meant; /* it is what the user has named */
} found;

typedef struct search {
    const char *job;
    found *list;
    int n;
} search;

static bool read_one(trace *out, found *f)
{
    char *text = NULL, why[128], state = 0;
    size_t size = 0;
    int parent = 0;
    FILE *to = open_memstream(&text, &size);
    if (!to) return false;
    bool good = ts_recorder_write(to, f->memory, NULL) == TS_OK;
    good = fclose(to) == 0 && good && trace_parse(out, text, size, why, sizeof why);
    if (!good) {
        free(text);
        return false;
    }
    out->json = text;
    out->job = f->job;
    f->job = NULL;
    if (parent_of(f->pid, &parent, &state)) out->process = state;
    return true;
}

static int by_job(const void *a, const void *b)
{
    const trace *x = a, *y = b;
    int order = strcmp(x->job, y->job);
    return order ? order : x->rank - y->rank;
}

static bool seen(const search *s, const ts_recorder_memory *m)
{
    /* A forked child has its parent's descriptors. */
    for (int i = 0; i < s->n; i++)
        if (s->list[i].memory->pid == m->pid &&
            atomic_load(&s->list[i].memory->rank) == atomic_load(&m->rank))
            return true;
    return false;
}

static bool add(search *s, const ts_recorder_memory *m, int pid)
{
    int parent = 0;
    char state;
    found *list = realloc(s->list, ((size_t)s->n + 1) * sizeof *list);
    if (list) s->list = list;
    parent_of(pid, &parent, &state);
    char *job = list ? job_of(m, parent) : NULL;
    if (!job) return false;
    s->list[s->n++] = (found){m, pid, job, is_meant(m, pid, s->job)};
    return true;
}

static void add_process(search *s, int pid)
{
    const ts_recorder_memory *m;
    for (int nth = 0; (m = ts_recorder_map(pid, -1, nth)); nth++)
        if (seen(s, m) || !add(s, m, pid)) ts_recorder_unmap(m);
}

/* A job is meant with all its ranks if one of them is. */
static bool keeps(const search *s, const found *f)
{
    for (int i = 0; i < s->n; i++)
        if (s->list[i].meant && strcmp(s->list[i].job, f->job) == 0) return true;
    return false;
}

static int read_all(trace **out, search *s)
{
    int n = 0;
    bool *kept = calloc((size_t)s->n + 1, sizeof *kept);
    *out = calloc((size_t)s->n + 1, sizeof **out);
    for (int i = 0; kept && i < s->n; i++) kept[i] = keeps(s, &s->list[i]);
    for (int i = 0; i < s->n; i++) {
        if (kept && *out && kept[i]) n += read_one(&(*out)[n], &s->list[i]);
        ts_recorder_unmap(s->list[i].memory);
        free(s->list[i].job);
    }
    free(kept);
    free(s->list);
    return n;
}

int live_find(trace **out, const char *job)
{
    search s = {.job = job};
    DIR *folder = opendir("/proc");
    *out = NULL;
    if (!folder) return 0;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (isdigit((unsigned char)entry->d_name[0])) add_process(&s, atoi(entry->d_name));
    closedir(folder);
    int n = read_all(out, &s);
    if (n) qsort(*out, (size_t)n, sizeof **out, by_job);
    return n;
}
