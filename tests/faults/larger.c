/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that are made of others: groups of some ranks, coalesced ones, a step of training. */
#include <stdio.h>

#include "base/error.h"
#include "faults.h"

/* ---- groups of some ranks -------------------------------------------------------------------- */

static ts_group_options like_default(void)
{
    ts_group_options opt = TS_GROUP_OPTIONS_INIT;
    opt.timeout_ms = ts_group_timeout(NULL);
    return opt;
}

/* A few operations of the members; then it goes.  A failure leaves it to the end of the run. */
static ts_status use(member *m, ts_group *group)
{
    member inner = *m;
    if (!ts_is_member(group)) return TS_OK;
    inner.group = group;
    inner.rank = ts_group_rank(group);
    inner.size = ts_group_size(group);
    int n = 1 + (int)dice_below(&inner.dice, 3);
    for (int i = 0; i < n; i++) TS_TRY(some_plain_operation(&inner));
    return ts_destroy_process_group(group);
}

/* All ranks of `of` call it, the members use it. */
ts_status op_new_group(member *m)
{
    int ranks[MOST_RANKS], n = 0;
    ts_group *group;
    ts_group_options opt = like_default();
    for (int i = 0; i < m->size; i++)
        if (dice_chance(&m->dice, 60)) ranks[n++] = i;
    if (n == 0) ranks[n++] = (int)dice_below(&m->dice, m->size);
    TS_TRY(ts_new_group(&group, ranks, n, &opt));
    return use(m, group);
}

ts_status op_split_group(member *m)
{
    int ranks[2][MOST_RANKS];
    ts_rank_list lists[2] = {{ranks[0], 0}, {ranks[1], 0}};
    ts_group *group;
    ts_group_options opt = like_default();
    for (int i = 0; i < m->size; i++) {
        int side = dice_chance(&m->dice, 50);
        ranks[side][lists[side].n++] = i;
    }
    if (lists[0].n == 0) lists[0] = lists[1];
    int n = lists[0].n == m->size || lists[1].n == 0 ? 1 : 2;
    TS_TRY(ts_split_group(&group, NULL, lists, n, &opt));
    return use(m, group);
}

/* ---- coalesced ------------------------------------------------------------------------------- */

ts_status op_coalesced_scope(member *m)
{
    ts_tensor *in[3], *out[3];
    int64_t count[3];
    ts_dtype dtype = some_dtype(m);
    int n = 1 + (int)dice_below(&m->dice, 3);
    for (int i = 0; i < n; i++) {
        count[i] = some_count(m);
        in[i] = bytes_of(m, m->rank, count[i], dtype);
        out[i] = blank(count[i] * m->size, dtype);
    }
    TS_TRY(ts_coalesce_begin(m->group));
    for (int i = 0; i < n; i++) TS_TRY(ts_all_gather_into_tensor(m->group, out[i], in[i], NULL));
    TS_TRY(ts_coalesce_end(m->group, NULL));
    for (int i = 0; i < n; i++)
        for (int q = 0; q < m->size; q++)
            expect_bytes(m, "coalesced all_gather", out[i], count[i] * q, q, count[i]);
    return TS_OK;
}

/* ---- a step of training ---------------------------------------------------------------------- */

/* The gradient of a sum of outputs is the input, here rank + 1: its mean over the ranks is known. */
static ts_status step(member *m, ts_module *ddp, ts_tensor *weight)
{
    double least, most, mean = (m->size + 1) / 2.0;
    ts_tensor *x = ts_full(TS_SHAPE(2, ts_size(weight, 1)), (m->rank + 1) / 2.0, NULL);
    TS_TRY(ts_backward(ts_sum(ts_forward(ddp, x))));
    TS_TRY(ts_item(ts_min(ts_grad(weight)), &least));
    TS_TRY(ts_item(ts_max(ts_grad(weight)), &most));
    if (least < mean - 1e-5 || most > mean + 1e-5)
        complain(m->seat, "wrong data: gradients from %g to %g, not %g", least, most, mean);
    return TS_OK;
}

ts_status op_train(member *m)
{
    ts_module *ddp;
    ts_ddp_options opt = TS_DDP_OPTIONS_INIT;
    int64_t in = 1 + dice_below(&m->dice, 300), out = 1 + dice_below(&m->dice, 300);
    ts_module *linear = ts_linear_new(in, out, NULL);
    opt.process_group = m->group;
    opt.bucket_cap_mb = 0.1;
    TS_TRY(ts_ddp_new(&ddp, linear, &opt));
    ts_status status = TS_OK;
    for (int i = 0; i < 2 && status == TS_OK; i++) {
        ts_module_zero_grad(ddp);
        status = step(m, ddp, ts_module_parameter(linear, "weight"));
    }
    char text[sizeof m->seat->text];
    snprintf(text, sizeof text, "%s", ts_error_last());
    ts_module_free(ddp);
    return status == TS_OK ? TS_OK : ts_fail(status, "%s", text);
}
