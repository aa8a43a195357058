/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers with ReLU between them. */
#include <stdio.h>
#include <tessera/models.h>

static ts_module *layer(const ts_module *self, int64_t i)
{
    char name[32];
    snprintf(name, sizeof name, "fc%lld", (long long)i + 1);
    return ts_module_child(self, name);
}

typedef struct mlp {
    int64_t layers;
} mlp;

static ts_tensor *mlp_forward(ts_module *self, ts_tensor *x)
{
    mlp *s = ts_module_state(self);
    for (int64_t i = 0; i < s->layers; i++) {
        x = ts_forward(layer(self, i), x);
        if (i + 1 < s->layers) x = ts_relu(x);
    }
    return x;
}

static const ts_module_class mlp_class = {
    .name = "MLP", .state_size = sizeof(mlp), .forward = mlp_forward};

ts_module *ts_mlp_new(const int64_t *sizes, int n)
{
    if (n < 2 || !sizes)
        return ts_module_fail("mlp_new: %d sizes; inputs and outputs are needed", n);
    ts_module *self = ts_module_new(&mlp_class);
    mlp *s = ts_module_state(self);
    s->layers = n - 1;
    for (int i = 0; i + 1 < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "fc%d", i + 1);
        ts_module_add(self, name, ts_linear_new(sizes[i], sizes[i + 1], NULL));
    }
    return self;
}
