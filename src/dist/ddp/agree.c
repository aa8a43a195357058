/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a model is a text with a line "name dtype (shape)" per tensor.  Ranks first compare
 * its length and hash; only if these differ do they exchange the texts. */
#include "dist/ddp/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/scope.h>

#include "base/memory.h"
#include "tensor/tensor.h"

static char *make_table(const ts_tensor_list *list, size_t *length)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, length);
    if (!out) return NULL;
    for (int64_t i = 0; i < ts_tensor_list_count(list); i++) {
        const ts_tensor *t = ts_tensor_list_get(list, i);
        char shape[TS_SHAPE_TEXT];
        fprintf(out, "%s %s %s\n", ts_tensor_list_name(list, i), ts_dtype_name(ts_tensor_dtype(t)),
                ts_shape_format(shape, sizeof shape, ts_tensor_shape(t)));
    }
    return fclose(out) == 0 ? text : NULL;
}

static uint64_t hash_bytes(const char *data, size_t n)
{
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)data[i]) * 1099511628211u;
    return h;
}

static ts_tensor_options dtype_option(ts_dtype dtype)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = dtype;
    opt.category = TS_CATEGORY_COMMUNICATION;
    return opt;
}

/* Every rank's (length, hash) into all; in the caller's scope.  poison: a failed tensor to enter
 * with, or NULL. */
static ts_status gather_summaries(ts_tensor **all, ts_group *group, const char *table,
                                  size_t length, ts_tensor *poison)
{
    ts_tensor_options opt = dtype_option(TS_INT64);
    int64_t own[2] = {(int64_t)length, (int64_t)hash_bytes(table, length)};
    *all = ts_empty(TS_SHAPE(ts_group_size(group), 2), &opt);
    return ts_all_gather_into_tensor(group, *all,
                                     poison ? poison : ts_from_data(own, TS_SHAPE(2), &opt), NULL);
}

static bool all_equal(const int64_t *summary, int size)
{
    for (int rank = 1; rank < size; rank++)
        if (memcmp(summary, summary + 2 * rank, 2 * sizeof *summary) != 0) return false;
    return true;
}

/* Every rank's table, as NUL-terminated texts in tables[size] (malloc'd each). */
static ts_status gather_tables(char **tables, ts_group *group, const char *own, size_t length,
                               const int64_t *summary)
{
    int size = ts_group_size(group);
    ts_tensor_options opt = dtype_option(TS_UINT8);
    ts_tensor **out = ts_calloc((size_t)size, sizeof *out);
    if (!out) return ts_fail_memory((size_t)size * sizeof *out, "ddp: comparing models");
    for (int rank = 0; rank < size; rank++) out[rank] = ts_empty(TS_SHAPE(summary[2 * rank]), &opt);
    ts_tensor *in = ts_from_data(own, TS_SHAPE((int64_t)length), &opt);
    ts_status status = ts_all_gather(group, out, size, in, NULL);
    for (int rank = 0; rank < size && status == TS_OK; rank++) {
        size_t bytes = ts_nbytes(out[rank]);
        tables[rank] = ts_calloc(bytes + 1, 1);
        status = tables[rank] ? ts_copy_out(out[rank], tables[rank], bytes)
                              : ts_fail_memory(bytes, "ddp: comparing models");
    }
    free(out);
    return status;
}

/* Length of the line at text without its end; "(nothing)" stands for the end of a table. */
static size_t line_length(const char **text)
{
    if (!**text) {
        *text = "(nothing)";
        return strlen(*text);
    }
    return strcspn(*text, "\n");
}

static ts_status word_difference(const char *first, const char *other, int rank)
{
    const char *a = first, *b = other;
    int64_t index = 0;
    for (;; index++) {
        size_t n = strcspn(a, "\n");
        if (strcspn(b, "\n") != n || memcmp(a, b, n) != 0 || !*a) break;
        a += n + 1;
        b += n + 1;
    }
    const char *a_text = a, *b_text = b;
    size_t a_length = line_length(&a_text), b_length = line_length(&b_text);
    return ts_fail(TS_EMISMATCH,
                   "ddp: the models differ: parameter %lld is %.*s on rank 0 but %.*s on rank %d; "
                   "build the same model on every rank",
                   (long long)index, (int)a_length, a_text, (int)b_length, b_text, rank);
}

static ts_status report_difference(ts_group *group, const char *own, size_t length,
                                   const int64_t *summary)
{
    int size = ts_group_size(group);
    char **tables = ts_calloc((size_t)size, sizeof *tables);
    if (!tables) return ts_fail_memory((size_t)size * sizeof *tables, "ddp: comparing models");
    ts_status status = gather_tables(tables, group, own, length, summary);
    for (int rank = 1; rank < size && status == TS_OK; rank++)
        if (strcmp(tables[0], tables[rank]) != 0)
            status = word_difference(tables[0], tables[rank], rank);
    for (int rank = 0; rank < size; rank++) free(tables[rank]);
    free(tables);
    return status;
}

static ts_status compare(ts_group *group, const char *table, size_t length, ts_tensor *poison)
{
    ts_tensor *all;
    TS_TRY(gather_summaries(&all, group, table, length, poison));
    const int64_t *summary = ts_data(all);
    if (all_equal(summary, ts_group_size(group))) return TS_OK;
    return report_difference(group, table, length, summary);
}

ts_status ts_ddp_agree(ts_group *group, const ts_tensor_list *list, ts_status local)
{
    size_t length = 0;
    ts_scope scope = ts_scope_begin();
    ts_tensor *poison = local == TS_OK ? NULL : ts_fail_tensor_last(local);
    char *table = list ? make_table(list, &length) : ts_strdup("");
    if (!table && !poison)
        poison = ts_fail_tensor(TS_ENOMEM, "ddp: out of memory while comparing models");
    ts_status status = compare(group, table ? table : "", table ? length : 0, poison);
    free(table);
    ts_scope_end(scope);
    return local != TS_OK ? local : status;
}

ts_status ts_ddp_broadcast(ts_group *group, const ts_tensor_list *list)
{
    for (int64_t i = 0; i < ts_tensor_list_count(list); i++)
        TS_TRY(ts_broadcast(group, ts_tensor_list_get(list, i), 0, NULL));
    return TS_OK;
}
