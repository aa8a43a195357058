/* SPDX-License-Identifier: Apache-2.0 */
/* Data parallelism over blocks that run again in backward. */
#include <string.h>
#include <tessera/tessera.h>

#include "test.h"

typedef struct net {
    ts_module *in, *drop, *mid, *out;
    bool again; /* checkpointed, one inside another */
} net;

static ts_status inner(ts_tensor *const *in, int num_in, ts_tensor **out, int num_out, void *user)
{
    net *m = user;
    (void)num_in, (void)num_out;
    out[0] = ts_forward(m->mid, ts_forward(m->drop, in[0]));
    return TS_OK;
}

static ts_status outer(ts_tensor *const *in, int num_in, ts_tensor **out, int num_out, void *user)
{
    net *m = user;
    ts_tensor *h = ts_gelu(ts_forward(m->in, in[0]), TS_GELU_ERF);
    if (m->again)
        h = ts_checkpoint(inner, &h, 1, NULL, 1, m, NULL);
    else
        inner(&h, num_in, &h, num_out, m);
    out[0] = ts_gelu(h, TS_GELU_ERF);
    return TS_OK;
}

static ts_tensor *net_forward(ts_module *self, ts_tensor *x)
{
    net *m = ts_module_state(self);
    ts_tensor *h = NULL;
    if (m->again)
        h = ts_checkpoint(outer, &x, 1, NULL, 1, m, NULL);
    else
        outer(&x, 1, &h, 1, m);
    return ts_forward(m->out, h);
}
static const ts_module_class net_class = {
    .name = "Net", .state_size = sizeof(net), .forward = net_forward};

static ts_module *net_new(bool again)
{
    ts_manual_seed(3);
    ts_module *self = ts_module_new(&net_class);
    net *m = ts_module_state(self);
    m->in = ts_module_add(self, "in", ts_linear_new(6, 16, NULL));
    m->drop = ts_module_add(self, "drop", ts_dropout_new(0.5));
    m->mid = ts_module_add(self, "mid", ts_linear_new(16, 16, NULL));
    m->out = ts_module_add(self, "out", ts_linear_new(16, 3, NULL));
    m->again = again;
    return self;
}

/* Two steps' worth of averaged gradients; the random numbers depend on the rank only. */
static void run(ts_test *test, ts_module *ddp)
{
    ts_manual_seed(100 + (uint64_t)ts_group_rank(test->group));
    for (int step = 0; step < 2; step++) {
        ts_tensor *x = ts_randn(TS_SHAPE(5, 6), NULL);
        TS_PASS(ts_backward(ts_sum(ts_forward(ddp, x))));
    }
}

TS_TEST(ddp_takes_checkpointed_modules, .ranks = 2)
{
    ts_module *plain, *again;
    ts_ddp_options opt = TS_DDP_OPTIONS_INIT;
    opt.process_group = test->group;
    TS_PASS(ts_ddp_new(&plain, net_new(false), &opt));
    TS_PASS(ts_ddp_new(&again, net_new(true), &opt));
    run(test, plain);
    run(test, again);
    ts_tensor_list *a = ts_module_parameters(plain), *b = ts_module_parameters(again);
    TS_EXPECT_INT(ts_tensor_list_count(a), 6);
    for (int64_t i = 0; i < ts_tensor_list_count(a); i++) {
        ts_tensor *ga = ts_grad(ts_tensor_list_get(a, i)), *gb = ts_grad(ts_tensor_list_get(b, i));
        TS_EXPECT(ga && gb);
        TS_EXPECT(memcmp(ts_data(ga), ts_data(gb), ts_nbytes(ga)) == 0);
    }
    ts_tensor_list_free(a);
    ts_tensor_list_free(b);
    ts_module_free(plain);
    ts_module_free(again);
}
