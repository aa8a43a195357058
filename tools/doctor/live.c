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

static bool read_one(trace *out, const ts_recorder_memory *m, int pid)
{
    char *text = NULL, why[128], state = 0;
    size_t size = 0;
    int parent = 0;
    FILE *to = open_memstream(&text, &size);
    if (!to) return false;
    bool good = ts_recorder_write(to, m, NULL) == TS_OK;
    good = fclose(to) == 0 && good && trace_parse(out, text, size, why, sizeof why);
    if (!good) {
        free(text);
        return false;
    }
    out->json = text;
    if (parent_of(pid, &parent, &state)) out->process = state;
    out->job = job_of(m, parent);
    if (out->job) return true;
    trace_free(out);
    return false;
}

static int by_job(const void *a, const void *b)
{
    const trace *x = a, *y = b;
    int order = strcmp(x->job, y->job);
    return order ? order : x->rank - y->rank;
}

/* meant[i]: is list[i] what the user has named? */
typedef struct search {
    const char *job;
    trace *list;
    bool *meant;
    int n;
} search;

static bool seen(const search *s, const ts_recorder_memory *m)
{
    /* A forked child has its parent's descriptors. */
    for (int i = 0; i < s->n; i++)
        if (s->list[i].pid == m->pid && s->list[i].rank == atomic_load(&m->rank)) return true;
    return false;
}

static bool make_room(search *s)
{
    trace *list = realloc(s->list, ((size_t)s->n + 1) * sizeof *list);
    if (list) s->list = list;
    bool *meant = realloc(s->meant, ((size_t)s->n + 1) * sizeof *meant);
    if (meant) s->meant = meant;
    return list && meant;
}

static void add_process(search *s, int pid)
{
    const ts_recorder_memory *m;
    for (int nth = 0; (m = ts_recorder_map(pid, -1, nth)); nth++) {
        if (!seen(s, m) && make_room(s) && read_one(&s->list[s->n], m, pid))
            s->meant[s->n++] = is_meant(m, pid, s->job);
        ts_recorder_unmap(m);
    }
}

/* A job is meant with all its ranks if one of them is. */
static bool keeps(const search *s, const trace *t)
{
    for (int i = 0; i < s->n; i++)
        if (s->meant[i] && strcmp(s->list[i].job, t->job) == 0) return true;
    return false;
}

static void drop_others(search *s)
{
    int kept = 0;
    for (int i = 0; i < s->n; i++) s->meant[i] |= keeps(s, &s->list[i]);
    for (int i = 0; i < s->n; i++) {
        if (s->meant[i])
            s->list[kept++] = s->list[i];
        else
            trace_free(&s->list[i]);
    }
    s->n = kept;
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
    drop_others(&s);
    free(s.meant);
    if (s.n) qsort(s.list, (size_t)s.n, sizeof *s.list, by_job);
    *out = s.list;
    return s.n;
}
