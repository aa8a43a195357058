/* SPDX-License-Identifier: Apache-2.0 */
/* Lesson 2: a two-layer network, trained with data parallelism.
 * Run it: build/bin/tessera run -n 2 build/bin/02_ddp */
#include <stdio.h>
#include <tessera/tessera.h>

typedef struct mlp {
    ts_module *fc1, *fc2;
} mlp;

static ts_tensor *mlp_forward(ts_module *self, ts_tensor *x)
{
    mlp *m = ts_module_state(self);
    return ts_forward(m->fc2, ts_relu(ts_forward(m->fc1, x)));
}

static const ts_module_class mlp_class = {
    .name = "mlp",
    .state_size = sizeof(mlp),
    .forward = mlp_forward,
};

static ts_module *mlp_new(int64_t in, int64_t hidden, int64_t out)
{
    ts_module *self = ts_module_new(&mlp_class);
    mlp *m = ts_module_state(self);
    m->fc1 = ts_module_add(self, "fc1", ts_linear_new(in, hidden, NULL));
    m->fc2 = ts_module_add(self, "fc2", ts_linear_new(hidden, out, NULL));
    return self;
}

static double train_step(ts_module *ddp, ts_optim *opt)
{
    double value;
    ts_scope scope = ts_scope_begin(); /* owns this step's tensors */
    ts_tensor *x = ts_randn(TS_SHAPE(32, 16), NULL);
    ts_tensor *y = ts_sum_dim(x, 1, true);
    ts_tensor *loss = ts_mse_loss(ts_forward(ddp, x), y);

    ts_optim_zero_grad(opt);
    ts_must(ts_backward(loss)); /* gradients averaged over the ranks */
    ts_must(ts_optim_step(opt));
    ts_must(ts_item(loss, &value));
    ts_must(ts_scope_end(scope));
    return value;
}

int main(void)
{
    ts_module *ddp;
    ts_optim *opt;

    ts_must(ts_init_process_group(NULL));       /* rank and size come from the launcher */
    ts_manual_seed(1234 + (uint64_t)ts_rank()); /* every rank its own data */

    ts_ddp_options ddp_opt = TS_DDP_OPTIONS_INIT;
    ddp_opt.bucket_cap_mb = 1;
    ts_must(ts_ddp_new(&ddp, mlp_new(16, 64, 1), &ddp_opt)); /* broadcasts rank 0's weights */

    ts_sgd_options sgd_opt = TS_SGD_OPTIONS_INIT;
    sgd_opt.lr = 0.05;
    ts_must(ts_sgd_new(&opt, ts_module_parameters(ddp), &sgd_opt));

    for (int step = 0; step <= 200; step++) {
        double loss = train_step(ddp, opt);
        if (ts_rank() == 0 && step % 50 == 0) printf("step %3d  loss %.4f\n", step, loss);
    }

    ts_optim_free(opt);
    ts_module_free(ddp); /* and the model inside */
    ts_must(ts_destroy_process_group(NULL));
    return 0;
}
