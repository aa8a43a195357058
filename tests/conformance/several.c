/* SPDX-License-Identifier: Apache-2.0 */
/* Many operations in flight, and several as one. */
#include "conformance.h"

enum { MANY = 100, FEW = 3, MOST = 16 };

static double sum(const conf *c) { return c->size * (c->size + 1) / 2.0; }

static void waited_in_reverse(conf *c)
{
    ts_work *work[MANY], *barrier;
    ts_tensor *t[MANY];
    for (int i = 0; i < MANY; i++) {
        t[i] = conf_full(i * 11, c->rank + 1);
        CONF_OK(ts_all_reduce(c->group, t[i], TS_SUM, &work[i]));
    }
    CONF_OK(ts_barrier(c->group, &barrier));
    CONF_OK(ts_work_wait(barrier, 0));
    for (int i = MANY - 1; i >= 0; i--) {
        CONF_EXPECT(ts_work_is_completed(work[i]));
        CONF_OK(ts_work_wait(work[i], 0));
        CONF_ALL_ARE(t[i], sum(c));
        ts_work_free(work[i]);
    }
    ts_work_free(barrier);
}

static void coalesced(conf *c, conf_variant *v)
{
    conf_tensor t[FEW], out[FEW * MOST];
    ts_tensor *list[FEW], *outs[FEW * MOST];
    for (int k = 0; k < FEW; k++) {
        t[k] = conf_make(v, v->n + k, conf_value(c->rank, k, TS_SUM));
        list[k] = t[k].view;
    }
    for (int i = 0; i < FEW * c->size; i++) {
        out[i] = conf_make(v, v->n + i % FEW, conf_blank());
        outs[i] = out[i].view;
    }
    CONF_RUN(v, ts_all_gather_coalesced(c->group, outs, list, FEW, w));
    for (int i = 0; i < FEW * c->size; i++)
        CONF_CHECK(&out[i], conf_value(i / FEW, i % FEW, TS_SUM));
    CONF_RUN(v, ts_all_reduce_coalesced(c->group, list, FEW, TS_SUM, w));
    for (int k = 0; k < FEW; k++) CONF_CHECK(&t[k], conf_reduced(c->size, k, TS_SUM));
}

static void coalesced_lists(conf *c) { conf_each(c, coalesced); }

/* Ten in a scope are as ten single ones. */
static void scopes(conf *c)
{
    ts_tensor *t[10], *in[FEW], *out[FEW];
    for (int i = 0; i < 10; i++) t[i] = conf_full(i * 500, c->rank + 1);
    CONF_OK(ts_coalesce_begin(c->group));
    for (int i = 0; i < 10; i++) CONF_OK(ts_all_reduce(c->group, t[i], TS_SUM, NULL));
    CONF_OK(ts_coalesce_end(c->group, NULL));
    for (int i = 0; i < 10; i++) CONF_ALL_ARE(t[i], sum(c));
    for (int k = 0; k < FEW; k++) {
        in[k] = conf_full(k + 1, c->rank + 1);
        out[k] = conf_full((k + 1) * c->size, 0);
    }
    CONF_OK(ts_all_gather_into_tensor_coalesced(c->group, out, in, FEW, NULL));
    for (int k = 0; k < FEW; k++)
        for (int r = 0; r < c->size; r++)
            CONF_ALL_ARE(ts_narrow(out[k], 0, (k + 1) * r, k + 1), r + 1);
    CONF_OK(ts_reduce_scatter_tensor_coalesced(c->group, in, out, FEW, TS_SUM, NULL));
    for (int k = 0; k < FEW; k++) CONF_ALL_ARE(in[k], c->size * (c->rank + 1.0));
}

static void monitored(conf *c)
{
    if (c->flags & (CONF_FAKE | CONF_NO_MESSAGES)) return;
    for (int i = 0; i < 3; i++) CONF_OK(ts_monitored_barrier(c->group, 20000, i == 1));
}

/* Empty tensors keep their shape, and the order of operations. */
static void empties(conf *c)
{
    ts_tensor *t = ts_ones(TS_SHAPE(1, 0, 2), NULL), *one = conf_full(1, 1);
    ts_tensor *whole = ts_ones(TS_SHAPE(c->size, 0, 2), NULL);
    CONF_OK(ts_all_gather_into_tensor(c->group, whole, t, NULL));
    CONF_OK(ts_all_reduce(c->group, t, TS_SUM, NULL));
    CONF_OK(ts_reduce(c->group, t, 0, TS_SUM, NULL));
    CONF_OK(ts_broadcast(c->group, t, 0, NULL));
    CONF_OK(ts_all_to_all_single(c->group, ts_ones(TS_SHAPE(c->size, 0), NULL),
                                 ts_ones(TS_SHAPE(c->size, 0), NULL), NULL, NULL, NULL));
    CONF_OK(ts_all_reduce(c->group, one, TS_SUM, NULL));
    CONF_ALL_ARE(one, c->size);
    CONF_EXPECT(ts_ndim(t) == 3 && ts_size(t, 1) == 0 && ts_size(t, 2) == 2);
}

const conf_case conf_several[] = {
    {"waited for in reverse", waited_in_reverse, 1, 0},
    {"coalesced lists", coalesced_lists, 1, 0},
    {"coalesced scopes", scopes, 1, 0},
    {"monitored barrier", monitored, 1, 0},
    {"empty tensors", empties, 1, 0},
    {NULL, NULL, 0, 0},
};
