/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong input on one rank only, and ranks that disagree: every rank gets its error at once, no
 * tensor changes, and the group stays usable. */
#include "conformance.h"

enum { MOST = 16, WRONG_KINDS = 9 };

static void still_usable(conf *c)
{
    double got = 0;
    ts_tensor *t = conf_full(1, 1);
    CONF_OK(ts_all_reduce(c->group, t, TS_SUM, NULL));
    CONF_OK(ts_item(t, &got));
    CONF_EXPECT(got == c->size);
}

/* Every operation once; bad: this rank's arguments are no good. */
static ts_status call(conf *c, int kind, bool bad, ts_work **w)
{
    int n = c->size, root = 0;
    bool here = c->rank == root;
    ts_tensor *t = bad ? NULL : conf_full(4, 1), *out = conf_full(4, 1), *in[MOST], *to[MOST];
    for (int r = 0; r < n; r++) {
        in[r] = conf_full(4, 1);
        to[r] = conf_full(4, 1);
    }
    switch (kind) {
    case 0: return ts_all_reduce(c->group, t, TS_SUM, w);
    case 1: return ts_broadcast(c->group, t, root, w);
    case 2: return ts_reduce(c->group, out, bad ? n : root, TS_SUM, w);
    case 3: return ts_all_gather(c->group, to, bad ? n + 1 : n, out, w);
    case 4: return ts_gather(c->group, t, here ? to : NULL, here ? n : 0, root, w);
    case 5: return ts_scatter(c->group, t, here ? in : NULL, here ? n : 0, root, w);
    case 6: return ts_reduce_scatter(c->group, out, in, n, bad ? (ts_reduce_op)99 : TS_SUM, w);
    case 7: return ts_all_to_all(c->group, to, bad ? NULL : in, n, w);
    default: return ts_all_reduce_coalesced(c->group, in, bad ? 0 : 1, TS_SUM, w);
    }
}

static void one_rank(conf *c)
{
    for (int kind = 0; kind < WRONG_KINDS; kind++)
        for (int async = 0; async < 2; async++) {
            ts_work *work = NULL;
            ts_scope scope = ts_scope_begin();
            bool bad = c->rank == c->size - 1;
            ts_status status = call(c, kind, bad, async ? &work : NULL);
            if (work) status = ts_work_wait(work, 0);
            ts_work_free(work);
            ts_status wanted = bad ? TS_EINVAL : TS_EREMOTE;
            if (status != wanted)
                conf_fail(c, __LINE__, "kind %d: %s (%s), not %s", kind, ts_status_name(status),
                          ts_error_last(), ts_status_name(wanted));
            still_usable(c);
            ts_scope_end(scope);
        }
}

/* From a size that rides with the header to one that goes by pieces. */
static const int64_t sizes[] = {2, 3000, 409600};

static void different_sizes(conf *c)
{
    for (int i = 0; i < 3; i++) {
        ts_scope scope = ts_scope_begin();
        bool odd = c->rank == c->size - 1;
        ts_tensor *t = conf_full(sizes[i] - odd, 1), *out[MOST], *in[MOST];
        CONF_FAILS(ts_all_reduce(c->group, t, TS_SUM, NULL), TS_EMISMATCH, "on the size: ranks {0");
        CONF_FAILS(ts_reduce(c->group, t, 0, TS_SUM, NULL), TS_EMISMATCH, "reduce");
        CONF_FAILS(ts_broadcast(c->group, t, 0, NULL), TS_EMISMATCH, "broadcast");
        CONF_ALL_ARE(t, 1);
        for (int r = 0; r < c->size; r++) {
            in[r] = conf_full(sizes[i] - (odd && r == 0), 1);
            out[r] = conf_full(sizes[i], 2);
        }
        CONF_FAILS(ts_all_to_all(c->group, out, in, c->size, NULL), TS_EMISMATCH,
                   "on sizes in pairs: rank");
        for (int r = 0; r < c->size; r++) CONF_ALL_ARE(out[r], 2);
        bool root = c->rank == 0; /* whose list does not fit the last rank */
        if (root) in[c->size - 1] = conf_full(sizes[i] + 1, 1);
        CONF_FAILS(ts_gather(c->group, out[0], root ? in : NULL, root ? c->size : 0, 0, NULL),
                   TS_EMISMATCH, "elements");
        still_usable(c);
        ts_scope_end(scope);
    }
}

static void different_calls(conf *c)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    bool odd = c->rank == c->size - 1;
    opt.dtype = odd ? TS_BFLOAT16 : TS_FLOAT32;
    ts_tensor *mixed = ts_full(TS_SHAPE(100), 0.125, &opt), *t = conf_full(100, 1);
    CONF_FAILS(ts_all_reduce(c->group, mixed, TS_SUM, NULL), TS_EMISMATCH,
               "on the dtype: ranks {0");
    CONF_FAILS(ts_all_reduce(c->group, t, odd ? TS_MAX : TS_MIN, NULL), TS_EMISMATCH,
               "on the reduction: ranks {0");
    CONF_FAILS(ts_broadcast(c->group, t, odd ? 1 : 0, NULL), TS_EMISMATCH, "on the root: ranks {0");
    CONF_FAILS(odd ? ts_barrier(c->group, NULL) : ts_all_reduce(c->group, t, TS_SUM, NULL),
               TS_EMISMATCH, "on the operation: ranks {0");
    CONF_FAILS(ts_all_reduce(c->group, t, odd ? TS_MAX : TS_MIN, NULL), TS_EMISMATCH,
               " at wrong.c:");
    CONF_ALL_ARE(t, 1);
    CONF_ALL_ARE(ts_to_dtype(mixed, TS_FLOAT32), 0.125);
    still_usable(c);
}

/* Refused before anything is sent. */
static void rows_that_do_not_divide(conf *c)
{
    ts_tensor *in = conf_full(7 * c->size + 1, 1), *out = conf_full(7 * c->size + 1, 2);
    CONF_FAILS(ts_all_to_all_single(c->group, out, in, NULL, NULL, NULL), TS_ESHAPE,
               "do not divide");
    CONF_ALL_ARE(out, 2);
    still_usable(c);
}

const conf_case conf_wrong[] = {
    {"wrong input on one rank", one_rank, 2, 0},
    {"ranks with different sizes", different_sizes, 2, 0},
    {"ranks with different calls", different_calls, 2, 0},
    {"rows that do not divide", rows_that_do_not_divide, 2, 0},
    {NULL, NULL, 0, 0},
};
