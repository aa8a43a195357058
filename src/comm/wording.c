/* SPDX-License-Identifier: Apache-2.0 */
/* Off the fast path: clear rather than quick. */
#include "comm/wording.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/names.h"

enum { CALL_BYTES = 512 };

static void append(char *text, size_t size, const char *format, ...) TS_PRINTF(3, 4);
static void append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

/* "all_reduce SUM of float32 (4,)" */
static void describe(char *text, size_t size, const ts_said *s)
{
    int fields = ts_collective_agreement(s->op);
    bool to_root = s->op == TS_COLL_REDUCE || s->op == TS_COLL_GATHER;
    char shape[TS_SHAPE_TEXT];
    snprintf(text, size, "%s", ts_collective_name(s->op));
    if (fields & TS_AGREE_REDUCE) append(text, size, " %s", ts_reduce_name(s->reduce));
    if (fields & TS_AGREE_ROOT) append(text, size, " %s %d", to_root ? "to" : "from", s->root);
    if (fields & TS_AGREE_DTYPE) append(text, size, " of %s", ts_dtype_name(s->dtype));
    if (fields & TS_AGREE_COUNT)
        append(text, size, " %s", ts_shape_format(shape, sizeof shape, s->shape));
    if (fields & TS_AGREE_PARTS)
        append(text, size, ", %lld elements over all ranks (sizes #%04x)", (long long)s->count,
               (unsigned)(s->parts & 0xffff));
    if (s->in_pairs)
        append(text, size, ", giving %lld elements and taking %lld", (long long)s->gives,
               (long long)s->takes);
}

/* ---- what differs ---------------------------------------------------------------------------- */

static unsigned differences(const ts_said *a, const ts_said *b)
{
    unsigned fields = 0;
    if (a->dtype != b->dtype) fields |= TS_AGREE_DTYPE;
    if (a->reduce != b->reduce) fields |= TS_AGREE_REDUCE;
    if (a->root != b->root) fields |= TS_AGREE_ROOT;
    if (a->count != b->count) fields |= TS_AGREE_COUNT;
    if (a->parts != b->parts) fields |= TS_AGREE_PARTS;
    return fields & (unsigned)ts_collective_agreement(a->op);
}

/* " on the dtype and the size" */
static void append_differences(char *text, size_t size, const ts_said *said, int n)
{
    static const struct {
        unsigned field;
        const char *name;
    } names[] = {{TS_AGREE_DTYPE, "dtype"},
                 {TS_AGREE_REDUCE, "reduction"},
                 {TS_AGREE_ROOT, "root"},
                 {TS_AGREE_COUNT, "size"},
                 {TS_AGREE_PARTS, "sizes of the parts"}};
    unsigned fields = 0;
    for (int i = 1; i < n; i++) {
        if (said[i].op != said[0].op) {
            append(text, size, " on the operation");
            return;
        }
        fields |= differences(&said[0], &said[i]);
    }
    if (said[0].in_pairs) append(text, size, " on sizes in pairs");
    const char *link = " on the ";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!(fields & names[i].field)) continue;
        append(text, size, "%s%s", link, names[i].name);
        link = " and the ";
    }
}

/* ---- who calls what -------------------------------------------------------------------------- */

/* The calls of all, and their descriptions. */
typedef struct calls {
    const ts_said *said;
    char (*text)[CALL_BYTES];
    int n;
} calls;

static bool same(const calls *c, int a, int b) { return strcmp(c->text[a], c->text[b]) == 0; }

/* "ranks {0,1,4-7} call ...": those of whom `first` is the first to call it like this. */
static void append_ranks(char *text, size_t size, const calls *c, int first)
{
    int begin = 0, end = -2; /* of the row of ranks that is being written */
    const char *comma = "";
    append(text, size, "ranks {");
    for (int i = first; i <= c->n; i++) {
        if (i < c->n && !same(c, i, first)) continue;
        if (i < c->n && c->said[i].rank == end + 1) {
            end++;
            continue;
        }
        if (end > begin) append(text, size, "%c%d", end > begin + 1 ? '-' : ',', end);
        if (i == c->n) break;
        begin = end = c->said[i].rank;
        append(text, size, "%s%d", comma, begin);
        comma = ",";
    }
    append(text, size, "} call %s", c->text[first]);
}

/* Where rank `first` calls it; others of its set may do so elsewhere. */
static void append_site(char *text, size_t size, const calls *c, int first)
{
    const char *site = c->said[first].text;
    bool one = true;
    if (!*site) return;
    for (int i = first; i < c->n; i++)
        one = one && (!same(c, i, first) || strncmp(c->said[i].text, site, TS_SAID_BYTES) == 0);
    append(text, size, " at %.200s%s", site, one ? "" : " and elsewhere");
}

static void append_calls(char *text, size_t size, const ts_said *said, int n)
{
    calls c = {said, ts_calloc((size_t)n, CALL_BYTES), n};
    if (!c.text) {
        append(text, size, "(no memory for details)");
        return;
    }
    for (int i = 0; i < n; i++) describe(c.text[i], CALL_BYTES, &said[i]);
    for (int i = 0; i < n; i++) {
        int first = 0;
        while (!same(&c, first, i)) first++;
        if (first < i) continue;
        if (i > 0) append(text, size, "; ");
        append_ranks(text, size, &c, i);
        append_site(text, size, &c, i);
    }
    free(c.text);
}

void ts_word_verdict(char *text, size_t size, const ts_said *said, int n)
{
    char list[TS_ERROR_MAX - 512] = "";
    for (int i = 0; i < n; i++) {
        if (said[i].status == TS_OK) continue;
        snprintf(text, size, "rank %d came with bad arguments: %s: %.*s", said[i].rank,
                 ts_status_name(said[i].status), TS_SAID_BYTES, said[i].text);
        return;
    }
    append_calls(list, sizeof list, said, n);
    snprintf(text, size, "ranks disagree");
    append_differences(text, size, said, n);
    append(text, size, ": %s; %s", list,
           n > 0 && said[0].in_pairs ? TS_WORD_PAIRS
                                     : "all ranks must call the same operations in the same "
                                       "order with equal dtypes and sizes");
}
