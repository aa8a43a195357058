/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that move data. */
#include "conformance.h"

enum { MOST = 16 };

/* Of rank r's tensor in operations whose sizes may differ. */
static int64_t count_of(const conf_variant *v, int r)
{
    if (!v->uneven) return v->n;
    return r % 3 == 1 ? 0 : v->n + r;
}

/* What rank i gives to rank j. */
static int64_t given(const conf_variant *v, int i, int j)
{
    return v->uneven ? (i + 2 * j) % 3 * (v->n / 2 + 1) : v->n;
}

static void broadcast(conf *c, conf_variant *v)
{
    bool root = c->rank == v->root;
    conf_want want = conf_value(v->root, 0, TS_SUM);
    conf_tensor t = conf_make(v, v->n, root ? want : conf_blank());
    CONF_RUN(v, ts_broadcast(c->group, t.view, v->root, w));
    CONF_CHECK(&t, want);
}

static void all_gather(conf *c, conf_variant *v)
{
    conf_tensor in = conf_make(v, count_of(v, c->rank), conf_value(c->rank, 0, TS_SUM)), out[MOST];
    ts_tensor *list[MOST];
    for (int r = 0; r < c->size; r++) {
        out[r] = conf_make(v, count_of(v, r), conf_blank());
        list[r] = out[r].view;
    }
    CONF_RUN(v, ts_all_gather(c->group, list, c->size, in.view, w));
    for (int r = 0; r < c->size; r++) CONF_CHECK(&out[r], conf_value(r, 0, TS_SUM));
    CONF_CHECK(&in, conf_value(c->rank, 0, TS_SUM));
}

/* Block r of a whole tensor, as one of its own. */
static conf_tensor block(const conf_tensor *whole, int64_t at, int64_t count)
{
    ts_tensor *view = ts_narrow(whole->view, 0, at, count);
    return (conf_tensor){.view = view, .base = view, .layout = CONF_WHOLE, .n = count};
}

static void all_gather_into_tensor(conf *c, conf_variant *v)
{
    conf_tensor in = conf_make(v, v->n, conf_value(c->rank, 0, TS_SUM));
    conf_tensor out = conf_make(v, v->n * c->size, conf_blank());
    CONF_RUN(v, ts_all_gather_into_tensor(c->group, out.view, in.view, w));
    for (int r = 0; r < c->size; r++) {
        conf_tensor part = block(&out, r * v->n, v->n);
        CONF_CHECK(&part, conf_value(r, 0, TS_SUM));
    }
}

/* One list, on the root only; gathers into it or scatters it. */
static void gather_or_scatter(conf *c, conf_variant *v, bool gather)
{
    bool root = c->rank == v->root;
    conf_tensor own =
        conf_make(v, count_of(v, c->rank), gather ? conf_value(c->rank, 0, TS_SUM) : conf_blank());
    conf_tensor part[MOST];
    ts_tensor *list[MOST];
    for (int r = 0; r < c->size && root; r++) {
        part[r] = conf_make(v, count_of(v, r), gather ? conf_blank() : conf_value(0, r, TS_SUM));
        list[r] = part[r].view;
    }
    ts_tensor *const *given_list = root ? list : NULL;
    if (gather)
        CONF_RUN(v, ts_gather(c->group, own.view, given_list, root ? c->size : 0, v->root, w));
    else
        CONF_RUN(v, ts_scatter(c->group, own.view, given_list, root ? c->size : 0, v->root, w));
    CONF_CHECK(&own, gather ? conf_value(c->rank, 0, TS_SUM) : conf_value(0, c->rank, TS_SUM));
    for (int r = 0; r < c->size && root; r++)
        CONF_CHECK(&part[r], gather ? conf_value(r, 0, TS_SUM) : conf_value(0, r, TS_SUM));
}

static void gather(conf *c, conf_variant *v) { gather_or_scatter(c, v, true); }
static void scatter(conf *c, conf_variant *v) { gather_or_scatter(c, v, false); }

static void all_to_all(conf *c, conf_variant *v)
{
    conf_tensor in[MOST], out[MOST];
    ts_tensor *ins[MOST], *outs[MOST];
    for (int r = 0; r < c->size; r++) {
        in[r] = conf_make(v, given(v, c->rank, r), conf_value(c->rank, r, TS_SUM));
        out[r] = conf_make(v, given(v, r, c->rank), conf_blank());
        ins[r] = in[r].view;
        outs[r] = out[r].view;
    }
    CONF_RUN(v, ts_all_to_all(c->group, outs, ins, c->size, w));
    for (int r = 0; r < c->size; r++) {
        CONF_CHECK(&out[r], conf_value(r, c->rank, TS_SUM));
        CONF_CHECK(&in[r], conf_value(c->rank, r, TS_SUM));
    }
}

/* The pieces of the list form, one after the other. */
static void all_to_all_single(conf *c, conf_variant *v)
{
    int64_t in_splits[MOST], out_splits[MOST], ins = 0, outs = 0, at = 0;
    for (int r = 0; r < c->size; r++) {
        ins += in_splits[r] = given(v, c->rank, r);
        outs += out_splits[r] = given(v, r, c->rank);
    }
    conf_tensor in = conf_make(v, ins, conf_blank()), out = conf_make(v, outs, conf_blank());
    for (int r = 0; r < c->size; r++) {
        conf_tensor piece = conf_make(v, in_splits[r], conf_value(c->rank, r, TS_SUM));
        ts_copy_(ts_narrow(in.view, 0, at, in_splits[r]), piece.view);
        at += in_splits[r];
    }
    bool splits = v->uneven || v->root % 2;
    CONF_RUN(v, ts_all_to_all_single(c->group, out.view, in.view, splits ? out_splits : NULL,
                                     splits ? in_splits : NULL, w));
    at = 0;
    for (int r = 0; r < c->size; r++) {
        conf_tensor piece = block(&out, at, out_splits[r]);
        CONF_CHECK(&piece, conf_value(r, c->rank, TS_SUM));
        at += out_splits[r];
    }
}

/* All to all is as many scatters. */
static void all_to_all_equals_scatters(conf *c, conf_variant *v)
{
    conf_tensor in[MOST], out[MOST], same[MOST];
    ts_tensor *ins[MOST], *outs[MOST];
    v->layout = CONF_WHOLE;
    for (int r = 0; r < c->size; r++) {
        in[r] = conf_make(v, given(v, c->rank, r), conf_value(c->rank, r, TS_SUM));
        out[r] = conf_make(v, given(v, r, c->rank), conf_blank());
        same[r] = conf_make(v, given(v, r, c->rank), conf_blank());
        ins[r] = in[r].view;
        outs[r] = out[r].view;
    }
    CONF_RUN(v, ts_all_to_all(c->group, outs, ins, c->size, w));
    for (int r = 0; r < c->size; r++) {
        bool root = r == c->rank;
        CONF_RUN(v,
                 ts_scatter(c->group, same[r].view, root ? ins : NULL, root ? c->size : 0, r, w));
        CONF_CHECK(&same[r], conf_value(r, c->rank, TS_SUM));
        CONF_CHECK(&out[r], conf_value(r, c->rank, TS_SUM));
    }
}

#define EACH(name)                                                                                 \
    static void each_##name(conf *c) { conf_each(c, name); }
EACH(broadcast)
EACH(all_gather)
EACH(all_gather_into_tensor)
EACH(gather)
EACH(scatter)
EACH(all_to_all)
EACH(all_to_all_single)

static void equivalence(conf *c)
{
    for (int i = 0; i < 6; i++) {
        conf_variant v = {.dtype = TS_INT32, .n = 100, .uneven = i % 2, .async = i / 2 % 2};
        all_to_all_equals_scatters(c, &v);
    }
}

static void barriers(conf *c)
{
    ts_work *work;
    for (int i = 0; i < 20; i++) {
        CONF_OK(ts_barrier(c->group, NULL));
        ts_status status = ts_barrier(c->group, &work);
        conf_finish(c, __LINE__, "ts_barrier", status, &work);
    }
}

const conf_case conf_moving[] = {
    {"broadcast", each_broadcast, 1, 0},
    {"all_gather", each_all_gather, 1, 0},
    {"all_gather_into_tensor", each_all_gather_into_tensor, 1, 0},
    {"gather", each_gather, 1, 0},
    {"scatter", each_scatter, 1, 0},
    {"all_to_all", each_all_to_all, 1, 0},
    {"all_to_all_single", each_all_to_all_single, 1, 0},
    {"all_to_all equals scatters", equivalence, 1, 0},
    {"barrier", barriers, 1, 0},
    {NULL, NULL, 0, 0},
};
