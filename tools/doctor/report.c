/* SPDX-License-Identifier: Apache-2.0 */
/* Who is where, who waits for whom, and where ranks part. */
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "json.h"

typedef struct report {
    const trace *traces;
    int n;
    bool json;
} report;

static const trace *trace_of_rank(const report *r, int rank)
{
    for (int i = 0; i < r->n; i++)
        if (r->traces[i].rank == rank) return &r->traces[i];
    return NULL;
}

static const char *group_name(const trace *t, const trace_entry *e)
{
    const trace_group *g = trace_group_of(t, e->group);
    return g ? g->name : "?";
}

/* The entry of another rank that belongs to the same collective; NULL: it has not come to it. */
static const trace_entry *counterpart(const trace *other, const char *group, int64_t sequence,
                                      bool *later)
{
    *later = false;
    for (int i = other->entries - 1; i >= 0; i--) {
        const trace_entry *e = &other->entry[i];
        if (e->message || strcmp(group_name(other, e), group) != 0) continue;
        if (e->sequence == sequence) return e;
        if (e->sequence > sequence) *later = true;
    }
    return NULL;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static bool is_collective(const trace_entry *e)
{
    return !e->message && strcmp(e->kind, "monitored_barrier") != 0 &&
           strcmp(e->kind, "breakpoint") != 0;
}

static void append(char *list, size_t size, int rank)
{
    size_t used = strlen(list);
    if (used + 16 < size) snprintf(list + used, size - used, "%s%d", used ? "," : "", rank);
}

/* "1,3": the ranks that an operation under way waits for. */
static int waits_for(char *list, size_t size, const report *r, const trace *t, const trace_entry *e)
{
    int count = 0;
    bool later;
    const trace_group *g = trace_group_of(t, e->group);
    list[0] = '\0';
    if (e->state != TRACE_STARTED || !g) return 0;
    if (e->message) {
        if (e->peer < 0 || e->peer >= g->size) return 0;
        append(list, size, g->rank[e->peer]);
        return 1;
    }
    for (int i = 0; i < g->size && is_collective(e); i++) {
        if (g->rank[i] == t->rank) continue;
        const trace *other = trace_of_rank(r, g->rank[i]);
        if (other && (counterpart(other, g->name, e->sequence, &later) || later)) continue;
        append(list, size, g->rank[i]);
        count++;
    }
    return count;
}

static const char *process_text(char state)
{
    return state == 'T' || state == 't' ? "stopped" : state == 'Z' ? "dead" : "";
}

static double age(const trace *t, const trace_entry *e)
{
    return t->now_ns > e->created_ns && e->created_ns > 0
               ? (double)(t->now_ns - e->created_ns) * 1e-9
               : 0;
}

static const char *state_text(const trace_entry *e)
{
    static const char *const states[] = {"waits its turn in", "in", "finished"};
    return e->failed ? "failed in" : states[e->state];
}

static void print_rank(const report *r, const trace *t)
{
    char list[256] = "", what[200] = "no operation yet";
    const trace_entry *e = trace_current(t);
    if (e) {
        waits_for(list, sizeof list, r, t, e);
        snprintf(what, sizeof what, "%s %s #%lld of '%s'", state_text(e), e->name,
                 (long long)e->sequence, group_name(t, e));
    }
    if (r->json) {
        ts_json json = ts_json_begin(stdout);
        ts_json_int(&json, "rank", t->rank);
        ts_json_int(&json, "pid", t->pid);
        ts_json_text(&json, "host", t->host);
        ts_json_text(&json, "process", process_text(t->process));
        ts_json_text(&json, "state", e ? state_text(e) : "none");
        ts_json_text(&json, "operation", e ? e->name : NULL);
        ts_json_int(&json, "sequence", e ? e->sequence : 0);
        ts_json_text(&json, "group", e ? group_name(t, e) : NULL);
        ts_json_real(&json, "seconds", e ? age(t, e) : 0);
        ts_json_text(&json, "at", e ? e->site : NULL);
        ts_json_text(&json, "waits_for", list);
        ts_json_end(&json);
        return;
    }
    printf("%4d  %7lld  %-8.8s %-8s %-44s %8.1f  %-10s %s\n", t->rank, (long long)t->pid, t->host,
           process_text(t->process), what, e ? age(t, e) : 0, list, e ? e->site : "");
}

static void print_absent(const report *r)
{
    int world = 0;
    char list[512] = "";
    for (int i = 0; i < r->n; i++)
        if (r->traces[i].world > world) world = r->traces[i].world;
    for (int rank = 0; rank < world && rank < 4096; rank++)
        if (!trace_of_rank(r, rank)) append(list, sizeof list, rank);
    if (!*list) return;
    if (r->json) {
        ts_json json = ts_json_begin(stdout);
        ts_json_text(&json, "event", "absent");
        ts_json_text(&json, "ranks", list);
        ts_json_end(&json);
    } else {
        printf("not seen: rank %s (on another host, or gone). For one table of several hosts: "
               "--save DIR on each, then --trace DIR/*\n",
               list);
    }
}

/* ---- what follows ---------------------------------------------------------------------------- */

static bool is_waiting(const report *r, const trace *t)
{
    char list[256];
    const trace_entry *e = trace_current(t);
    return e && waits_for(list, sizeof list, r, t, e) > 0;
}

static bool names(const char *list, int rank)
{
    char *end;
    for (const char *c = list; *c; c = *end ? end + 1 : end)
        if (strtol(c, &end, 10) == rank) return true;
    return false;
}

static bool is_waited_for(const report *r, int rank)
{
    char list[256];
    for (int i = 0; i < r->n; i++) {
        const trace_entry *e = trace_current(&r->traces[i]);
        if (e && waits_for(list, sizeof list, r, &r->traces[i], e) && names(list, rank))
            return true;
    }
    return false;
}

static void print_finding(const report *r, const char *event, int rank, const char *text)
{
    if (!r->json) {
        printf("%s\n", text);
        return;
    }
    ts_json json = ts_json_begin(stdout);
    ts_json_text(&json, "event", event);
    ts_json_int(&json, "rank", rank);
    ts_json_text(&json, "text", text);
    ts_json_end(&json);
}

static void print_culprits(const report *r)
{
    int waiting = 0, culprits = 0;
    for (int i = 0; i < r->n; i++) {
        const trace *t = &r->traces[i];
        bool waits = is_waiting(r, t);
        waiting += waits;
        if (waits || !is_waited_for(r, t->rank)) continue;
        char text[600];
        const trace_entry *e = trace_current(t);
        const char *process = process_text(t->process);
        snprintf(text, sizeof text, "rank %d holds up others: %s%s%s%s%s%s%s", t->rank,
                 *process ? "its process is " : "", process, *process ? "; " : "",
                 e ? (e->state == TRACE_STARTED ? "it is in " : "its last operation was ")
                   : "it has done nothing yet",
                 e ? e->name : "", e && *e->site ? " at " : "", e ? e->site : "");
        print_finding(r, "culprit", t->rank, text);
        culprits++;
    }
    if (waiting > 1 && waiting == r->n && culprits == 0)
        print_finding(r, "deadlock", -1, "all ranks wait for each other");
}

/* Must the sizes of all ranks be equal? */
static bool equal_sizes(const char *kind)
{
    return strcmp(kind, "all_reduce") == 0 || strcmp(kind, "broadcast") == 0 ||
           strcmp(kind, "reduce") == 0;
}

static bool differ(const trace_entry *a, const trace_entry *b)
{
    return strcmp(a->kind, b->kind) != 0 ||
           (equal_sizes(a->kind) && strcmp(a->sizes, b->sizes) != 0);
}

/* The first collective at which a rank does something else than this one. */
static bool find_divergence(const report *r, const trace *t)
{
    bool later;
    for (int i = 0; i < t->entries; i++) {
        const trace_entry *e = &t->entry[i], *o;
        for (int q = 0; q < r->n && is_collective(e); q++) {
            o = counterpart(&r->traces[q], group_name(t, e), e->sequence, &later);
            if (!o || !is_collective(o) || !differ(e, o)) continue;
            char text[900];
            snprintf(text, sizeof text,
                     "ranks part at #%lld of group '%s': rank %d calls %s of %s%s%s, rank %d %s of "
                     "%s%s%s",
                     (long long)e->sequence, group_name(t, e), t->rank, e->name, e->sizes,
                     *e->site ? " at " : "", e->site, r->traces[q].rank, o->name, o->sizes,
                     *o->site ? " at " : "", o->site);
            print_finding(r, "divergence", r->traces[q].rank, text);
            return true;
        }
    }
    return false;
}

void report_title(const char *job, bool another, bool json)
{
    if (!json) {
        printf("%sjob %s\n", another ? "\n" : "", job);
        return;
    }
    ts_json line = ts_json_begin(stdout);
    ts_json_text(&line, "event", "job");
    ts_json_text(&line, "job", job);
    ts_json_end(&line);
}

void report_ranks(const trace *traces, int n, bool json)
{
    report r = {traces, n, json};
    if (!json)
        printf("rank      pid  host     process  %-44s  seconds  waits for  at\n", "operation");
    for (int i = 0; i < n; i++) print_rank(&r, &traces[i]);
    print_absent(&r);
    if (n > 0) find_divergence(&r, &traces[0]);
    print_culprits(&r);
}
