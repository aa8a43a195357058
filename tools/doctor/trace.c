/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps as values.  The bytes may be anything. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

enum { MOST_RANKS = 1 << 20 };

static char *text_of(const cJSON *object, const char *key, const char *otherwise)
{
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return strdup(value ? value : otherwise);
}

static int64_t int_of(const cJSON *object, const char *key, int64_t otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsNumber(item) || !(item->valuedouble > -9e18 && item->valuedouble < 9e18))
        return otherwise;
    return (int64_t)item->valuedouble;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static int add_rank(trace_group *g, double value)
{
    if (!(value >= 0 && value < MOST_RANKS) || g->size >= MOST_RANKS) return 0;
    if ((g->size & (g->size - 1)) == 0) {
        int *more = realloc(g->rank, (size_t)(g->size ? 2 * g->size : 1) * sizeof *more);
        if (!more) return 0;
        g->rank = more;
    }
    g->rank[g->size++] = (int)value;
    return 1;
}

/* "[0,1]", or a list. */
static void read_ranks(trace_group *g, const cJSON *ranks)
{
    const cJSON *item;
    const char *text = cJSON_GetStringValue(ranks);
    if (cJSON_IsArray(ranks))
        cJSON_ArrayForEach(item, ranks) if (cJSON_IsNumber(item)) add_rank(g, item->valuedouble);
    for (const char *c = text; c && *c;) {
        char *end;
        double value = strtod(c, &end);
        if (end == c)
            c++;
        else if (!add_rank(g, value))
            return;
        else
            c = end;
    }
}

static bool read_groups(trace *t, const cJSON *config)
{
    const cJSON *item;
    int n = cJSON_GetArraySize(config);
    t->group = calloc((size_t)n + 1, sizeof *t->group);
    if (!t->group) return false;
    cJSON_ArrayForEach(item, config)
    {
        if (!item->string || t->groups == n) continue;
        trace_group *g = &t->group[t->groups++];
        g->key = int_of(item, "pg_id", strtoll(item->string, NULL, 10));
        g->name = text_of(item, "name", item->string);
        g->own = (int)int_of(item, "rank", -1);
        read_ranks(g, cJSON_GetObjectItemCaseSensitive(item, "ranks"));
        if (!g->name) return false;
    }
    return true;
}

const trace_group *trace_group_of(const trace *t, int64_t key)
{
    for (int i = 0; i < t->groups; i++)
        if (t->group[i].key == key) return &t->group[i];
    return NULL;
}

/* ---- entries --------------------------------------------------------------------------------- */

static int state_of(const cJSON *item)
{
    const char *state = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "state"));
    if (state && strcmp(state, "scheduled") == 0) return TRACE_SCHEDULED;
    return state && strcmp(state, "started") == 0 ? TRACE_STARTED : TRACE_COMPLETED;
}

/* "native:send 0->1" gives "send" and 1; "native:recv 1<-0" "recv" and 0. */
static void read_kind(trace_entry *e, const cJSON *item)
{
    char *text = text_of(item, "profiling_name", "?");
    char *name = text ? strchr(text, ':') : NULL, *space;
    name = name ? name + 1 : text;
    space = name ? strchr(name, ' ') : NULL;
    if (space) {
        const char *arrow = strstr(space, "->"), *back = strstr(space, "<-");
        if (arrow) e->peer = atoi(arrow + 2);
        if (back) e->peer = back[2] == '?' ? -1 : atoi(back + 2);
        *space = '\0';
    }
    e->kind = name ? strdup(name) : NULL;
    e->sending = name && strcmp(name, "send") == 0;
    free(text);
}

static char *site_of(const cJSON *item)
{
    char site[300] = "";
    const cJSON *frame = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(item, "frames"), 0);
    const char *file = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(frame, "filename"));
    int64_t line = int_of(frame, "line", 0);
    if (file && line > 0) snprintf(site, sizeof site, "%.200s:%lld", file, (long long)line);
    return strdup(site);
}

/* The words of errors for those of PyTorch's recorder. */
static const char *dtype_of(const cJSON *item)
{
    static const char *const names[][2] = {{"Float", "float32"},
                                           {"Double", "float64"},
                                           {"Half", "float16"},
                                           {"BFloat16", "bfloat16"},
                                           {"Long", "int64"},
                                           {"Int", "int32"},
                                           {"Short", "int16"},
                                           {"Char", "int8"},
                                           {"Byte", "uint8"},
                                           {"Bool", "bool"},
                                           {"ComplexFloat", "complex64"},
                                           {"ComplexDouble", "complex128"}};
    const char *text = cJSON_GetStringValue(
        cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(item, "input_dtypes"), 0));
    for (size_t i = 0; text && i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i][0]) == 0) return names[i][1];
    return text ? text : "nothing";
}

/* "float32 (2, 3)", as errors have it; lists of tensors with a pair of brackets each. */
static char *sizes_of(const cJSON *item)
{
    char *text = NULL;
    size_t size;
    const cJSON *shape, *dim;
    FILE *to = open_memstream(&text, &size);
    if (!to) return NULL;
    fputs(dtype_of(item), to);
    cJSON_ArrayForEach(shape, cJSON_GetObjectItemCaseSensitive(item, "input_sizes"))
    {
        int n = 0;
        fputs(" (", to);
        cJSON_ArrayForEach(dim, shape)
            fprintf(to, "%s%.0f", n++ ? ", " : "", cJSON_IsNumber(dim) ? dim->valuedouble : 0);
        fputs(n == 1 ? ",)" : ")", to);
    }
    if (fclose(to) == 0) return text;
    free(text);
    return NULL;
}

static bool read_entry(trace_entry *e, const cJSON *item)
{
    e->peer = (int)int_of(item, "peer", -1);
    read_kind(e, item);
    e->name = text_of(item, "called", e->kind ? e->kind : "?");
    e->site = site_of(item);
    e->sizes = sizes_of(item);
    e->group = int_of(item, "pg_id", -1);
    e->message = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "is_p2p"));
    e->sequence = int_of(item, e->message ? "p2p_seq_id" : "collective_seq_id", 0);
    e->created_ns = int_of(item, "time_created_ns", 0);
    e->id = int_of(item, "record_id", 0);
    e->state = state_of(item);
    e->failed = cJSON_HasObjectItem(item, "status");
    return e->name && e->kind && e->site && e->sizes;
}

static bool read_entries(trace *t, const cJSON *entries)
{
    const cJSON *item;
    int n = cJSON_GetArraySize(entries);
    t->entry = calloc((size_t)n + 1, sizeof *t->entry);
    if (!t->entry) return false;
    cJSON_ArrayForEach(item, entries) if (t->entries < n &&
                                          !read_entry(&t->entry[t->entries++], item)) return false;
    return true;
}

static const char *read_all(trace *t, const cJSON *json)
{
    const cJSON *entries = cJSON_GetObjectItemCaseSensitive(json, "entries");
    if (!cJSON_IsObject(json) || !cJSON_IsArray(entries))
        return "it has no \"entries\", so it is not a dump of a flight recorder";
    t->rank = (int)int_of(json, "rank", -1);
    t->world = (int)int_of(json, "world_size", -1);
    t->pid = int_of(json, "pid", 0);
    t->now_ns = int_of(json, "time_ns", 0);
    t->process = (char)int_of(json, "process_state", 0);
    t->host = text_of(json, "host_name", "");
    t->run_id = text_of(json, "run_id", "");
    bool good = t->host && t->run_id;
    good = good && read_groups(t, cJSON_GetObjectItemCaseSensitive(json, "pg_config"));
    return good && read_entries(t, entries) ? NULL : "out of memory";
}

bool trace_parse(trace *out, const char *text, size_t size, char *why, size_t why_size)
{
    memset(out, 0, sizeof *out);
    cJSON *json = cJSON_ParseWithLength(text, size);
    const char *wrong = json ? read_all(out, json) : "it is not JSON";
    cJSON_Delete(json);
    if (!wrong) return true;
    snprintf(why, why_size, "%s", wrong);
    trace_free(out);
    return false;
}

void trace_free(trace *t)
{
    for (int i = 0; i < t->entries; i++) {
        free(t->entry[i].name);
        free(t->entry[i].kind);
        free(t->entry[i].site);
        free(t->entry[i].sizes);
    }
    for (int i = 0; i < t->groups; i++) {
        free(t->group[i].name);
        free(t->group[i].rank);
    }
    free(t->entry);
    free(t->group);
    free(t->host);
    free(t->run_id);
    free(t->job);
    free(t->json);
    memset(t, 0, sizeof *t);
}

const trace_entry *trace_current(const trace *t)
{
    for (int i = t->entries - 1; i >= 0; i--)
        if (t->entry[i].state == TRACE_STARTED) return &t->entry[i];
    return t->entries ? &t->entry[t->entries - 1] : NULL;
}
