/* SPDX-License-Identifier: Apache-2.0 */
/* Wording of disagreements.  Off the fast path: clear rather than quick. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/backend/native/native.h"
#include "comm/names.h"

/* What a link says begins with the group too, which stands in front already. */
static const char *without_group(const char *text, const char *name)
{
    char prefix[160];
    int length = snprintf(prefix, sizeof prefix, "group '%s': ", name);
    bool there = length < (int)sizeof prefix && strncmp(text, prefix, (size_t)length) == 0;
    return there ? text + length : text;
}

ts_status ts_native_fail(ts_native *n, const ts_coll *coll, ts_status status, const char *format,
                         ...)
{
    char text[TS_ERROR_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n->whole) coll = n->whole;
    return ts_fail(status, "%s #%llu of group '%s': %s", coll->name,
                   (unsigned long long)coll->sequence, n->name, without_group(text, n->name));
}

static bool is_to_root(int op) { return op == TS_COLL_REDUCE || op == TS_COLL_GATHER; }

/* As programs name it; what came from elsewhere may be anything. */
static int root_of(const ts_native *n, const ts_header *h)
{
    return h->root >= 0 && h->root < n->size ? ts_native_global(n, h->root) : h->root;
}

void ts_native_describe(char *text, size_t size, const ts_native *n, const ts_notice *notice)
{
    const ts_header *h = &notice->header;
    int fields = ts_collective_agreement((ts_collective)h->op);
    char reduce[16] = "", root[32] = "", what[64 + TS_SHAPE_TEXT] = "", shape[TS_SHAPE_TEXT];
    if (fields & TS_AGREE_REDUCE)
        snprintf(reduce, sizeof reduce, " %s", ts_reduce_name((ts_reduce_op)h->reduce));
    if (fields & TS_AGREE_ROOT)
        snprintf(root, sizeof root, " %s %d", is_to_root(h->op) ? "to" : "from", root_of(n, h));
    if (fields & TS_AGREE_PAIRS) {
        snprintf(what, sizeof what, " of %s", ts_dtype_name((ts_dtype)h->dtype));
    } else if (fields & TS_AGREE_DTYPE) {
        ts_shape_format(shape, sizeof shape,
                        ts_shape_make(notice->detail.ndim, notice->detail.dim));
        snprintf(what, sizeof what, " of %s %s", ts_dtype_name((ts_dtype)h->dtype), shape);
    }
    int used = snprintf(text, size, "%s%s%s%s", ts_collective_name((ts_collective)h->op), reduce,
                        root, what);
    /* Lists of equal sums may still differ; the digits tell them apart. */
    if (fields & TS_AGREE_PARTS && used >= 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, ", %lld elements over all ranks (sizes #%04x)",
                 (long long)h->count, (unsigned)(h->parts & 0xffff));
}

/* Appends to text, which always ends with a NUL. */
static void append(char *text, size_t size, const char *format, ...) TS_PRINTF(3, 4);
static void append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

/* Where rank first called it; others of its set may have done so elsewhere. */
static void append_site(char *text, size_t size, const ts_native *n, char (*call)[512], int ranks,
                        int first)
{
    const char *site = n->notice[first]->detail.cause;
    bool same = true;
    if (!n->sites || !*site) return;
    for (int q = first; q < ranks; q++)
        same = same && (strcmp(call[q], call[first]) != 0 ||
                        strncmp(n->notice[q]->detail.cause, site, TS_CAUSE_BYTES) == 0);
    append(text, size, " at %.200s%s", site, same ? "" : " and elsewhere");
}

/* "{0,1,3}: " for the ranks whose description is that of rank first. */
static void append_ranks(char *text, size_t size, const ts_native *n, char (*call)[512], int ranks,
                         int first)
{
    append(text, size, "%s{", text[0] ? "; ranks " : "ranks ");
    for (int q = first; q < ranks; q++)
        if (strcmp(call[q], call[first]) == 0)
            append(text, size, q == first ? "%d" : ",%d", ts_native_global(n, q));
    append(text, size, "} call %s", call[first]);
}

static void word_mismatch(char *text, size_t size, const ts_native *n, int count)
{
    char(*call)[512] = ts_calloc((size_t)count, sizeof *call);
    snprintf(text, size, call ? "" : "(no memory for details)");
    for (int q = 0; call && q < count; q++)
        ts_native_describe(call[q], sizeof call[q], n, n->notice[q]);
    for (int q = 0; call && q < count; q++) {
        bool first = true;
        for (int r = 0; r < q; r++) first = first && strcmp(call[r], call[q]) != 0;
        if (!first) continue;
        append_ranks(text, size, n, call, count, q);
        append_site(text, size, n, call, count, q);
    }
    free(call);
}

static void word_poison(char *text, size_t size, const ts_native *n, int count)
{
    int q = 0;
    while (q < count - 1 && !n->notice[q]->header.poisoned) q++;
    const ts_notice *notice = n->notice[q];
    char cause[TS_CAUSE_BYTES];
    memcpy(cause, notice->detail.cause, sizeof cause);
    cause[sizeof cause - 1] = '\0';
    snprintf(text, size, "rank %d came with bad arguments: %s: %s", ts_native_global(n, q),
             ts_status_name((ts_status)notice->detail.status), cause);
}

void ts_native_word(char *text, size_t size, const ts_native *n, unsigned verdict, int count)
{
    char calls[TS_ERROR_MAX - 512];
    if (verdict & TS_POISONED) {
        word_poison(text, size, n, count);
        return;
    }
    word_mismatch(calls, sizeof calls, n, count);
    snprintf(text, size,
             "ranks disagree: %s; all ranks must call the same operations in the same order with "
             "equal dtypes and sizes",
             calls);
}
