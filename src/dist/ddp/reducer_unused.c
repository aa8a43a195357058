/* SPDX-License-Identifier: Apache-2.0 */
/* Which parameters got no gradient, and on which ranks. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <tessera/scope.h>

#include "base/memory.h"
#include "dist/ddp/reducer_impl.h"

enum { NAMES_SHOWN = 8, RANKS_SHOWN = 8 };

typedef struct text {
    char buf[1400];
    int used;
} text;

static void put(text *t, const char *format, ...) TS_PRINTF(2, 3);
static void put(text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int room = (int)sizeof t->buf - t->used;
    int n = vsnprintf(t->buf + t->used, (size_t)room, format, args);
    va_end(args);
    t->used += n < room ? n : room - 1;
}

/* "'fc2.weight' (ranks 0, 3)" from the column of parameter i. */
static void put_parameter(text *t, const ts_reducer *r, const int32_t *used, int i, int size)
{
    int missing = 0;
    for (int rank = 0; rank < size; rank++) missing += !used[(int64_t)rank * r->num_params + i];
    put(t, "'%s' (rank%s", r->params[i].name, missing == 1 ? "" : "s");
    int shown = 0;
    for (int rank = 0; rank < size && shown < RANKS_SHOWN; rank++)
        if (!used[(int64_t)rank * r->num_params + i]) put(t, shown++ ? ", %d" : " %d", rank);
    put(t, missing > shown ? ", ...)" : ")");
}

static ts_status word_error(const ts_reducer *r, const int32_t *used, int size)
{
    text t = {.used = 0};
    int unused = 0;
    for (int i = 0; i < r->num_params; i++) {
        bool everywhere = true;
        for (int rank = 0; rank < size; rank++)
            everywhere = everywhere && used[(int64_t)rank * r->num_params + i];
        if (everywhere) continue;
        if (unused < NAMES_SHOWN) {
            if (unused) put(&t, ", ");
            put_parameter(&t, r, used, i, size);
        }
        unused++;
    }
    return ts_fail(
        TS_ESTATE,
        "ddp: %d parameter%s got no gradient in backward: %s%s; each parameter must take "
        "part in the loss on every rank, so leave such parameters out of the model or "
        "clear their requires_grad before wrapping it",
        unused, unused == 1 ? "" : "s", t.buf, unused > NAMES_SHOWN ? ", ..." : "");
}

/* Every rank's own map, one row per rank; malloc'd. */
static ts_status gather_maps(int32_t **out, ts_reducer *r, int size)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT32;
    opt.category = TS_CATEGORY_COMMUNICATION;
    size_t bytes = (size_t)size * (size_t)r->num_params * sizeof(int32_t);
    int32_t *used = malloc(bytes + 1);
    if (!used) return ts_fail_memory(bytes, "the map of used parameters");
    ts_scope scope = ts_scope_begin();
    ts_tensor *own = ts_empty(TS_SHAPE(r->num_params), &opt);
    ts_tensor *all = ts_empty(TS_SHAPE(size, r->num_params), &opt);
    int32_t *flags = ts_data_mut(own);
    for (int i = 0; i < r->num_params && flags; i++) flags[i] = r->params[i].ready;
    ts_status status = ts_all_gather_into_tensor(r->group, all, own, NULL);
    if (status == TS_OK) status = ts_copy_out(all, used, bytes);
    ts_scope_end(scope);
    if (status == TS_OK)
        *out = used;
    else
        free(used);
    return status;
}

ts_status reducer_check_use(ts_reducer *r)
{
    int size = ts_group_size(r->group);
    const int32_t *sums = ts_data(r->use_map);
    bool all = true;
    for (int i = 0; i < r->num_params; i++) all = all && sums[i] == size;
    if (all) return TS_OK;
    int32_t *used = NULL;
    TS_TRY(gather_maps(&used, r, size));
    ts_status status = word_error(r, used, size);
    free(used);
    return status;
}
