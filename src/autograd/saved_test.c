/* SPDX-License-Identifier: Apache-2.0 */
/* Saved-tensor hooks. */
#include <stdio.h>
#include <stdlib.h>
#include <tessera/tessera.h>

#include "test.h"

static ts_tensor *leaf(ts_shape shape, double value)
{
    ts_tensor *t = ts_full(shape, value, NULL);
    ts_set_requires_grad(t, true);
    return t;
}

/* ---- activations in bfloat16 ----------------------------------------------------------------- */

typedef struct counts {
    int packed, unpacked, dropped;
} counts;

static ts_status pack_half(void **packed, ts_tensor *t, void *user)
{
    ((counts *)user)->packed++;
    ts_tensor *half = ts_to_dtype(t, TS_BFLOAT16);
    *packed = ts_retain(half);
    return ts_tensor_status(half);
}

static ts_tensor *unpack_half(void *packed, void *user)
{
    ((counts *)user)->unpacked++;
    return ts_to_dtype(packed, TS_FLOAT32);
}

static void drop_half(void *packed, void *user)
{
    ((counts *)user)->dropped++;
    ts_release(packed);
}

static const ts_saved_hooks half_hooks = {pack_half, unpack_half, drop_half};

TS_TEST(saved_tensors_are_packed_in_the_innermost_scope)
{
    counts c = {0};
    ts_saved_hooks_scope outer, inner;
    ts_scope scope = ts_scope_begin();
    ts_tensor *x = leaf(TS_SHAPE(3), 1), *h = ts_mul_scalar(x, 3);
    ts_saved_hooks_begin(&outer, &half_hooks, &c);
    ts_tensor *y = ts_mul(h, h); /* two saved */
    ts_tensor *z = ts_mul(x, y); /* a leaf is not packed */
    ts_saved_hooks_begin(&inner, NULL, NULL);
    ts_tensor *w = ts_exp(ts_mul_scalar(z, 0));
    ts_saved_hooks_end(&inner);
    ts_saved_hooks_end(&outer);
    TS_EXPECT_INT(c.packed, 3);
    TS_PASS(ts_backward(ts_sum(ts_mul(w, z))));
    TS_EXPECT_ALL(ts_grad(x), 27.0);
    TS_EXPECT_INT(c.unpacked, 3);
    TS_EXPECT_INT(c.dropped, 3);
    ts_mul(h, h); /* outside */
    TS_EXPECT_INT(c.packed, 3);
    ts_saved_hooks_begin(&outer, &half_hooks, &c);
    ts_mul(ts_mul_scalar(x, 2), h);
    ts_saved_hooks_end(&outer);
    TS_PASS(ts_scope_end(scope));
    TS_EXPECT(c.packed == c.dropped && c.unpacked == 3);
}

TS_TEST(packed_tensors_keep_their_history_for_double_backward)
{
    counts c = {0};
    ts_saved_hooks_scope hooks;
    ts_tensor *x = leaf(TS_SHAPE(2), 3), *first, *second;
    ts_backward_options opt = TS_BACKWARD_OPTIONS_INIT;
    opt.create_graph = true;
    ts_tensor *h = ts_mul_scalar(x, 1);
    ts_saved_hooks_begin(&hooks, &half_hooks, &c);
    ts_tensor *loss = ts_sum(ts_mul(ts_mul(h, h), h));
    ts_saved_hooks_end(&hooks);
    TS_PASS(ts_grad_of(&first, &loss, NULL, 1, &x, 1, &opt));
    TS_EXPECT_ALL(first, 27.0);
    ts_tensor *sum = ts_sum(first);
    TS_PASS(ts_grad_of(&second, &sum, NULL, 1, &x, 1, NULL));
    TS_EXPECT_ALL(second, 18.0);
}

/* ---- activations in a file ------------------------------------------------------------------- */

typedef struct place {
    long offset;
    ts_shape shape;
} place;

static ts_status pack_file(void **packed, ts_tensor *t, void *user)
{
    place *at = malloc(sizeof *at);
    void *bytes = malloc(ts_nbytes(t) + 1);
    if (!at || !bytes) return TS_ENOMEM;
    fseek(user, 0, SEEK_END);
    *at = (place){ftell(user), ts_tensor_shape(t)};
    ts_status status = ts_copy_out(t, bytes, ts_nbytes(t));
    if (fwrite(bytes, 1, ts_nbytes(t), user) != ts_nbytes(t)) status = TS_EIO;
    free(bytes);
    *packed = at;
    return status;
}

static ts_tensor *unpack_file(void *packed, void *user)
{
    const place *at = packed;
    ts_tensor *t = ts_empty(at->shape, NULL);
    fseek(user, at->offset, SEEK_SET);
    if (fread(ts_data_mut(t), 1, ts_nbytes(t), user) != ts_nbytes(t)) ts_zero_(t);
    return t;
}

static void drop_file(void *packed, void *user)
{
    (void)user;
    free(packed);
}

static const ts_saved_hooks file_hooks = {pack_file, unpack_file, drop_file};

TS_TEST(activations_wait_in_a_file)
{
    ts_memory_stats before, after;
    FILE *file = tmpfile();
    TS_EXPECT(file != NULL);
    ts_tensor *x = leaf(TS_SHAPE(10, 100), 0.5), *want = leaf(TS_SHAPE(10, 100), 0.5), *h = want;
    for (int i = 0; i < 10; i++) h = ts_tanh(h);
    TS_PASS(ts_backward(ts_sum(h)));
    ts_saved_hooks_scope hooks;
    ts_memory_read(&before);
    ts_saved_hooks_begin(&hooks, &file_hooks, file);
    ts_scope scope = ts_scope_begin();
    h = x;
    for (int i = 0; i < 10; i++) h = ts_tanh(h);
    h = ts_scope_end_keep(scope, ts_sum(h));
    ts_saved_hooks_end(&hooks);
    ts_memory_read(&after);
    TS_EXPECT(after.current_total - before.current_total < 100);
    TS_PASS(ts_backward(h));
    fclose(file);
    TS_EXPECT(memcmp(ts_data(ts_grad(x)), ts_data(ts_grad(want)), 4000) == 0);
}

/* ---- failures -------------------------------------------------------------------------------- */

static ts_status pack_fails(void **packed, ts_tensor *t, void *user)
{
    (void)packed, (void)t, (void)user;
    return TS_EUSER;
}

static ts_status pack_nothing(void **packed, ts_tensor *t, void *user)
{
    (void)t, (void)user;
    *packed = NULL;
    return TS_OK;
}

static ts_tensor *unpack_wrong(void *packed, void *user)
{
    (void)packed;
    return user ? ts_zeros(TS_SHAPE(1), NULL) : NULL;
}

TS_TEST(hooks_of_saved_tensors_may_fail)
{
    const ts_saved_hooks failing = {pack_fails, unpack_half, NULL};
    const ts_saved_hooks wrong = {pack_nothing, unpack_wrong, NULL};
    ts_saved_hooks_scope hooks;
    ts_tensor *h = ts_mul_scalar(leaf(TS_SHAPE(2), 3), 2);
    ts_saved_hooks_begin(&hooks, &failing, NULL);
    TS_BAD(ts_mul(h, h), TS_EUSER, "pack hook of saved tensors returned TS_EUSER");
    ts_saved_hooks_end(&hooks);
    for (int i = 0; i < 2; i++) {
        ts_saved_hooks_begin(&hooks, &wrong, i ? &hooks : NULL);
        ts_tensor *y = ts_sum(ts_mul(h, h));
        ts_saved_hooks_end(&hooks);
        if (i) TS_FAIL(ts_backward(y), TS_ESHAPE, "backward of mul: the saved tensor was float32");
        if (!i) TS_FAIL(ts_backward(y), TS_EINVAL, "is missing");
    }
}
