/* SPDX-License-Identifier: Apache-2.0 */
/* A recorder as JSON, in the fields of PyTorch's flight recorder (version 2.10) and some more. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/site.h"
#include "comm/names.h"
#include "comm/recorder.h"

typedef struct writer {
    FILE *to;
    const ts_recorder_memory *memory;
    ts_dump_options opt;
    ts_sites *sites;
    bool resolves;
} writer;

static void put_text(const writer *w, const char *text)
{
    fputc('"', w->to);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(w->to, "\\%c", *c);
        else if (*c < 0x20 || *c >= 0x7f)
            fprintf(w->to, "\\u%04x", *c);
        else
            fputc(*c, w->to);
    }
    fputc('"', w->to);
}

static void put_member(const writer *w, const char *key, const char *text)
{
    fprintf(w->to, ",\"%s\":", key);
    put_text(w, text);
}

static void put_int(const writer *w, const char *key, int64_t value)
{
    fprintf(w->to, ",\"%s\":%lld", key, (long long)value);
}

/* 0: not known. */
static void put_time(const writer *w, const char *key, int64_t ns)
{
    if (ns)
        put_int(w, key, ns + w->memory->real_offset_ns);
    else
        fprintf(w->to, ",\"%s\":null", key);
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* A group goes by its name, which is the same on all ranks; later ones of that name get a number. */
static void put_key(const writer *w, const ts_recorder_group *g)
{
    char text[sizeof g->name + 16];
    int earlier = 0;
    for (int i = 0; i < TS_RECORDER_GROUPS; i++) {
        const ts_recorder_group *o = &w->memory->group[i];
        uint64_t id = atomic_load(&o->id);
        earlier += id > 0 && id < atomic_load(&g->id) && strcmp(o->name, g->name) == 0;
    }
    snprintf(text, sizeof text, earlier ? "%s#%d" : "%s", g->name, earlier + 1);
    put_text(w, text);
}

static void put_ranks(const writer *w, const ts_recorder_group *g)
{
    int global, n = 0;
    while (n < g->size && (global = ts_recorder_global(g, n)) >= 0)
        fprintf(w->to, "%s%d", n++ ? "," : "", global);
}

static void put_config(const writer *w, const ts_recorder_group *g, bool first)
{
    if (!first) fputc(',', w->to);
    put_key(w, g);
    fprintf(w->to, ":{\"pg_id\":%llu,\"name\":", (unsigned long long)(atomic_load(&g->id) - 1));
    put_text(w, g->name);
    put_member(w, "desc", *g->desc ? g->desc : g->name);
    put_member(w, "backend", g->backend);
    /* A text, as PyTorch has it. */
    fprintf(w->to, ",\"ranks\":\"[");
    put_ranks(w, g);
    fprintf(w->to, "]\",\"rank\":%d,\"size\":%d,\"closed\":%s}", g->rank, g->size,
            atomic_load(&g->closed) ? "true" : "false");
}

static void put_status(const writer *w, const ts_recorder_group *g, bool first)
{
    if (!first) fputc(',', w->to);
    put_key(w, g);
    fprintf(w->to,
            ":{\"last_enqueued_collective\":%lld,\"last_started_collective\":%lld,"
            "\"last_completed_collective\":%lld,\"last_message\":%lld}",
            (long long)atomic_load(&g->enqueued), (long long)atomic_load(&g->started),
            (long long)atomic_load(&g->completed), (long long)atomic_load(&g->messages));
}

static void put_groups(const writer *w, const char *key,
                       void (*put)(const writer *, const ts_recorder_group *, bool))
{
    bool first = true;
    fprintf(w->to, ",\"%s\":{", key);
    for (int i = 0; i < TS_RECORDER_GROUPS; i++) {
        const ts_recorder_group *g = &w->memory->group[i];
        uint64_t id = atomic_load_explicit(&g->id, memory_order_acquire);
        if (id == 0 || ts_recorder_find_group(w->memory, id) != g) continue;
        put(w, g, first);
        first = false;
    }
    fputc('}', w->to);
}

/* ---- entries --------------------------------------------------------------------------------- */

/* The words that PyTorch's analyser knows, with both ends of messages: "native:send 0->1". */
static void put_profiling_name(const writer *w, const ts_op_record *r, const ts_recorder_group *g)
{
    char text[128];
    const char *backend = g ? g->backend : "native", *name = ts_recorder_name(w->memory, r);
    int own = g ? g->rank : 0;
    if (r->op == TS_RECORD_SEND)
        snprintf(text, sizeof text, "%s:send %d->%d", backend, own, r->peer);
    else if (r->op == TS_RECORD_RECV && r->peer < 0)
        snprintf(text, sizeof text, "%s:recv %d<-?", backend, own);
    else if (r->op == TS_RECORD_RECV)
        snprintf(text, sizeof text, "%s:recv %d<-%d", backend, own, r->peer);
    else if (strcmp(name, "all_gather_into_tensor") == 0)
        snprintf(text, sizeof text, "%s:_all_gather_base", backend);
    else if (strcmp(name, "reduce_scatter_tensor") == 0)
        snprintf(text, sizeof text, "%s:_reduce_scatter_base", backend);
    else
        snprintf(text, sizeof text, "%s:%s", backend,
                 r->op < TS_NUM_COLLECTIVES ? ts_collective_name((ts_collective)r->op) : name);
    put_member(w, "profiling_name", text);
}

static const char *torch_dtype(int dtype)
{
    static const struct {
        int dtype;
        const char *name;
    } names[] = {{TS_FLOAT32, "Float"}, {TS_FLOAT64, "Double"},
                 {TS_FLOAT16, "Half"},  {TS_BFLOAT16, "BFloat16"},
                 {TS_INT64, "Long"},    {TS_INT32, "Int"},
                 {TS_INT16, "Short"},   {TS_INT8, "Char"},
                 {TS_UINT8, "Byte"},    {TS_COMPLEX64, "ComplexFloat"},
                 {TS_BOOL, "Bool"},     {TS_COMPLEX128, "ComplexDouble"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].dtype == dtype) return names[i].name;
    return "?";
}

/* The shape of one tensor, or the number of elements of all. */
static void put_side(const writer *w, const char *side, const ts_op_record *r, bool shape,
                     int64_t n)
{
    bool none = n < 0;
    fprintf(w->to, ",\"%s_sizes\":[", side);
    if (!none) fputc('[', w->to);
    for (int i = 0; !none && shape && i < r->ndim; i++)
        fprintf(w->to, "%s%lld", i ? "," : "", (long long)r->dim[i]);
    if (!none && !shape) fprintf(w->to, "%lld", (long long)n);
    fprintf(w->to, "%s],\"%s_dtypes\":[", none ? "" : "]", side);
    if (!none) put_text(w, torch_dtype(r->dtype));
    fputc(']', w->to);
}

/* A rank that could not say how large all parts are is given what the others must have: the analyser
 * expects sizes on both sides. */
static void put_sizes(const writer *w, const ts_op_record *r, const ts_recorder_group *g)
{
    int64_t n = 1, in = r->in, out = r->out;
    if (g && r->op == TS_COLL_ALL_GATHER && out < 0 && in >= 0) out = in * g->size;
    if (g && r->op == TS_COLL_REDUCE_SCATTER && in < 0 && out >= 0) in = out * g->size;
    for (int i = 0; i < r->ndim; i++) n *= r->dim[i];
    put_side(w, "input", r, in == n, in);
    put_side(w, "output", r, out == n, out);
}

static void put_frame(const writer *w, uint64_t address, bool first)
{
    ts_site site;
    if (!w->resolves || !ts_site_find(&site, w->sites, address))
        snprintf(site.file, sizeof site.file, "0x%llx", (unsigned long long)address);
    fprintf(w->to, "%s{\"name\":", first ? "" : ",");
    put_text(w, *site.function ? site.function : "?");
    put_member(w, "filename", site.file);
    put_int(w, "line", site.line);
    fputc('}', w->to);
}

static void put_frames(const writer *w, const ts_op_record *r)
{
    fprintf(w->to, ",\"frames\":[");
    put_frame(w, r->site, true);
    for (int i = 0; i < TS_RECORDER_FRAMES && r->frame[i]; i++)
        if (r->frame[i] != r->site) put_frame(w, r->frame[i], false);
    fputc(']', w->to);
}

static void put_entry(const writer *w, const ts_op_record *r, bool first)
{
    static const char *const states[] = {"scheduled", "started", "completed"};
    const ts_recorder_group *g = ts_recorder_find_group(w->memory, r->group);
    bool message = r->op == TS_RECORD_SEND || r->op == TS_RECORD_RECV;
    fprintf(w->to, "%s\n{\"record_id\":%llu", first ? "" : ",", (unsigned long long)r->id - 1);
    put_int(w, "pg_id", (int64_t)r->group - 1);
    fprintf(w->to, ",\"process_group\":[");
    if (g)
        put_key(w, g);
    else
        put_text(w, "?");
    fputc(',', w->to);
    put_text(w, g ? (*g->desc ? g->desc : g->name) : "?");
    fputc(']', w->to);
    put_int(w, "collective_seq_id", message ? 0 : (int64_t)r->sequence);
    put_int(w, "p2p_seq_id", message ? (int64_t)r->sequence : 0);
    put_int(w, "op_id", (int64_t)r->id);
    put_profiling_name(w, r, g);
    put_member(w, "called", ts_recorder_name(w->memory, r));
    put_time(w, "time_created_ns", r->created_ns);
    put_sizes(w, r, g);
    put_member(w, "state", states[r->state]);
    put_time(w, "time_discovered_started_ns", r->started_ns);
    put_time(w, "time_discovered_completed_ns", r->ended_ns);
    if (r->started_ns && r->ended_ns)
        fprintf(w->to, ",\"duration_ms\":%.6f", (double)(r->ended_ns - r->started_ns) * 1e-6);
    fprintf(w->to, ",\"retired\":%s,\"is_p2p\":%s",
            r->state == TS_RECORD_COMPLETED ? "true" : "false", message ? "true" : "false");
    put_int(w, "timeout_ms", r->timeout_ms);
    put_int(w, "peer", r->peer);
    if (message) put_int(w, "tag", r->tag);
    if (r->status) put_member(w, "status", ts_status_name((ts_status)r->status));
    if (w->opt.include_stack_traces) put_frames(w, r);
    fputc('}', w->to);
}

static ts_status put_entries(const writer *w)
{
    int n;
    bool first = true;
    ts_op_record *records = ts_recorder_read(w->memory, &n);
    if (!records) return ts_fail_memory(sizeof *records, "a dump");
    fprintf(w->to, ",\"entries\":[");
    for (int i = 0; i < n; i++) {
        if (w->opt.only_active && records[i].state == TS_RECORD_COMPLETED) continue;
        put_entry(w, &records[i], first);
        first = false;
    }
    fputc(']', w->to);
    free(records);
    return TS_OK;
}

ts_status ts_recorder_write(FILE *to, const ts_recorder_memory *memory, const ts_dump_options *opt)
{
    writer w = {.to = to, .memory = memory, .opt = TS_DUMP_OPTIONS_INIT};
    TS_TRY(ts_options_read(&w.opt, sizeof w.opt, opt, "flight_recorder_dump"));
    bool own = memory->pid == getpid();
    if (w.opt.include_stack_traces) w.sites = ts_sites_open(own ? 0 : (int)memory->pid);
    w.resolves = own || w.sites;
    fprintf(to, "{\"version\":\"2.10\",\"comm_lib_version\":\"tessera\"");
    put_int(&w, "rank", atomic_load(&memory->rank));
    put_int(&w, "world_size", atomic_load(&memory->size));
    put_int(&w, "pid", memory->pid);
    char text[sizeof memory->master + 1] = "";
    memcpy(text, memory->host, sizeof memory->host);
    put_member(&w, "host_name", text);
    memcpy(text, memory->run_id, sizeof memory->run_id);
    put_member(&w, "run_id", text);
    put_int(&w, "time_ns", ts_now_ns() + memory->real_offset_ns);
    put_groups(&w, "pg_config", put_config);
    put_groups(&w, "pg_status", put_status);
    ts_status status = w.opt.include_collectives ? put_entries(&w) : TS_OK;
    fprintf(to, "}\n");
    ts_sites_close(w.sites);
    return status;
}
