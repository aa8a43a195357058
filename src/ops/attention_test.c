/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "ops/op.h"

static const ts_backward_options keep_graph = {sizeof(ts_backward_options), true, false};

typedef struct attention_case {
    int64_t batch, heads, queries, keys, width, value_width;
    bool causal;
    double scale;
} attention_case;

static const attention_case cases[] = {
    {2, 2, 5, 5, 4, 4, true, 0},       {1, 2, 1, 7, 3, 5, true, 0},
    {1, 1, 40, 40, 8, 8, true, 0.3},   {2, 1, 33, 150, 16, 20, false, 0},
    {1, 3, 70, 300, 32, 32, true, 0},  {1, 1, 9, 4, 5, 5, true, 0}, /* queries 0 .. 4 see no key */
    {1, 2, 200, 129, 6, 7, false, -1}, {2, 2, 64, 64, 33, 17, true, 0},
};
enum { NUM_CASES = sizeof cases / sizeof *cases };

/* Views (B, H, T, D) of a (B, T, H, D) tensor, as a model makes them. */
static ts_tensor *heads_of(int64_t batch, int64_t heads, int64_t length, int64_t width,
                           ts_dtype dtype)
{
    ts_tensor *t = ts_randn(TS_SHAPE(batch, length, heads, width), NULL);
    t = ts_to_dtype(t, dtype);
    ts_set_requires_grad(t, true);
    return t;
}

static ts_tensor *as_heads(ts_tensor *t) { return ts_transpose(t, 1, 2); }

/* 0 where query i sees key j, a very low number elsewhere. */
static ts_tensor *mask_of(const attention_case *c, ts_dtype dtype)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = dtype;
    ts_tensor *mask = ts_zeros(TS_SHAPE(c->queries, c->keys), &opt);
    for (int64_t i = 0; c->causal && i < c->queries; i++) {
        int64_t seen = i + c->keys - c->queries + 1;
        if (seen < 0) seen = 0;
        if (seen < c->keys)
            ts_fill_(ts_narrow(ts_select(mask, 0, i), 0, seen, c->keys - seen), -1e30);
    }
    return mask;
}

/* By the definition.  Queries that see no key give 0. */
static ts_tensor *by_definition(const attention_case *c, ts_tensor *q, ts_tensor *k, ts_tensor *v)
{
    double scale = c->scale != 0 ? c->scale : 1 / sqrt((double)c->width);
    ts_tensor *mask = mask_of(c, ts_tensor_dtype(q));
    ts_tensor *s = ts_mul_scalar(ts_matmul(q, ts_transpose(k, 2, 3)), scale);
    ts_tensor *y = ts_matmul(ts_softmax(ts_add(s, mask), 3), v);
    int64_t blind = c->causal && c->queries > c->keys ? c->queries - c->keys : 0;
    ts_tensor *sight = ts_ones_like(ts_select(ts_select(ts_narrow(q, 3, 0, 1), 0, 0), 0, 0));
    if (blind) ts_fill_(ts_narrow(sight, 0, 0, blind), 0);
    return ts_mul(y, sight);
}

static void run_case(ts_test *test, const attention_case *c, ts_dtype dtype, double tolerance)
{
    ts_tensor *in[] = {heads_of(c->batch, c->heads, c->queries, c->width, dtype),
                       heads_of(c->batch, c->heads, c->keys, c->width, dtype),
                       heads_of(c->batch, c->heads, c->keys, c->value_width, dtype)};
    ts_tensor *q = as_heads(in[0]), *k = as_heads(in[1]), *v = as_heads(in[2]);
    ts_tensor *y = ts_attention(q, k, v, c->causal, c->scale), *e = by_definition(c, q, k, v);
    TS_EXPECT_CLOSE(y, e, tolerance, tolerance);
    ts_tensor *weights = ts_to_dtype(ts_randn(ts_tensor_shape(y), NULL), dtype);
    ts_tensor *root = ts_sum(ts_mul(y, weights)), *e_root = ts_sum(ts_mul(e, weights));
    ts_tensor *grad[3], *e_grad[3];
    TS_PASS(ts_grad_of(grad, &root, NULL, 1, in, 3, &keep_graph));
    TS_PASS(ts_grad_of(e_grad, &e_root, NULL, 1, in, 3, NULL));
    for (int i = 0; i < 3; i++) TS_EXPECT_CLOSE(grad[i], e_grad[i], tolerance, 8 * tolerance);
}

TS_TEST(attention_equals_its_definition)
{
    ts_manual_seed(3);
    for (int i = 0; i < NUM_CASES; i++) {
        run_case(test, &cases[i], TS_FLOAT64, 1e-12);
        if (test->failures) return;
        run_case(test, &cases[i], TS_FLOAT32, 4e-6);
        if (test->failures) return;
    }
}

TS_TEST(attention_survives_large_scores)
{
    ts_tensor *q = ts_mul_scalar(ts_ones(TS_SHAPE(1, 1, 3, 2), NULL), 300);
    ts_tensor *k = ts_full(TS_SHAPE(1, 1, 200, 2), 300, NULL);
    ts_tensor *v = ts_ones(TS_SHAPE(1, 1, 200, 2), NULL);
    ts_mul_scalar_(ts_narrow(k, 2, 150, 50), 2);
    ts_mul_scalar_(ts_narrow(v, 2, 150, 50), 7);
    TS_EXPECT_CLOSE(ts_attention(q, k, v, false, 0), ts_full(TS_SHAPE(1, 1, 3, 2), 7, NULL), 1e-6,
                    0);
}

TS_TEST(attention_without_elements)
{
    ts_tensor *q = ts_zeros(TS_SHAPE(2, 1, 3, 4), NULL),
              *none = ts_zeros(TS_SHAPE(2, 1, 0, 4), NULL);
    TS_EXPECT_ALL(ts_attention(q, none, none, false, 0), 0);
    TS_EXPECT_INT(ts_numel(ts_attention(none, q, q, true, 0)), 0);
    ts_tensor *in[] = {q, none};
    TS_PASS(ts_set_requires_grad(q, true));
    TS_PASS(ts_set_requires_grad(none, true));
    ts_tensor *root = ts_sum(ts_attention(q, none, none, false, 0)), *grad[2];
    TS_PASS(ts_grad_of(grad, &root, NULL, 1, in, 2, NULL));
    TS_EXPECT_ALL(grad[0], 0);
}

TS_TEST(attention_says_what_does_not_fit)
{
    ts_tensor *q = ts_zeros(TS_SHAPE(2, 1, 3, 4), NULL), *k = ts_zeros(TS_SHAPE(2, 1, 3, 5), NULL);
    TS_BAD(ts_attention(q, k, k, false, 0), TS_ESHAPE, "k (2, 1, 3, 5)");
    TS_BAD(ts_attention(q, ts_select(q, 0, 0), q, false, 0), TS_ESHAPE, "(1, 3, 4)");
    TS_BAD(ts_attention(ts_to_dtype(q, TS_INT32), q, q, false, 0), TS_EDTYPE, "int32");
    TS_BAD(ts_attention(q, NULL, q, false, 0), TS_EINVAL, "attention");
}

TS_TEST(attention_bits_do_not_depend_on_threads)
{
    ts_manual_seed(9);
    ts_tensor *in[] = {heads_of(2, 3, 70, 16, TS_FLOAT32), heads_of(2, 3, 70, 16, TS_FLOAT32),
                       heads_of(2, 3, 70, 16, TS_FLOAT32)};
    ts_tensor *first[3] = {NULL, NULL, NULL}, *grad[3];
    for (int threads = 1; threads <= 3; threads++) {
        TS_PASS(ts_set_num_threads(threads));
        ts_tensor *y = ts_attention(as_heads(in[0]), as_heads(in[1]), as_heads(in[2]), true, 0);
        ts_tensor *root = ts_sum(ts_mul(y, y));
        TS_PASS(ts_grad_of(grad, &root, NULL, 1, in, 3, NULL));
        for (int i = 0; i < 3; i++) {
            if (threads == 1) first[i] = grad[i];
            TS_EXPECT_EQUAL(grad[i], first[i]);
        }
    }
}

/* Beyond the output, only the log-sum-exp of each query stays. */
TS_TEST(attention_keeps_no_score_matrix)
{
    ts_tensor *q = heads_of(1, 1, 512, 8, TS_FLOAT32);
    ts_memory_stats before, after;
    ts_memory_read(&before);
    ts_memory_reset_peaks();
    ts_tensor *y = ts_attention(as_heads(q), as_heads(q), as_heads(q), true, 0);
    TS_GOOD(y);
    ts_memory_read(&after);
    int64_t kept = after.current_total - before.current_total;
    int64_t used = after.peak_total - before.current_total;
    TS_EXPECT(kept <= (int64_t)ts_nbytes(y) + 512 * 4 + 64);
    TS_EXPECT(used < 512 * 512 * 4 / 2);
}

/* ---- with options ---------------------------------------------------------------------------- */

enum { B = 2, H = 4, G = 2, T = 37, S = 150, D = 6, E = 5 };

static ts_tensor *random_f64(ts_shape shape)
{
    return ts_to_dtype(ts_randn(shape, NULL), TS_FLOAT64);
}

static ts_tensor *leaf(ts_shape shape)
{
    ts_tensor *t = random_f64(shape);
    ts_set_requires_grad(t, true);
    return t;
}

/* Heads of k and v as often as grouped queries look at them. */
static ts_tensor *repeated(ts_tensor *t)
{
    ts_shape s = ts_tensor_shape(t);
    ts_tensor *wide = ts_expand(ts_unsqueeze(t, 2), TS_SHAPE(B, G, H / G, s.dim[2], s.dim[3]));
    return ts_reshape(wide, TS_SHAPE(B, H, s.dim[2], s.dim[3]));
}

/* Output, log-sum-exp and the gradients of both against operations.  added: as added to the scores;
 * kept: factors of the probabilities or NULL; seeing: 1 where a query sees a key, or NULL. */
static void check_options_case(ts_test *test, const ts_attention_options *options, ts_tensor *added,
                               ts_tensor *kept, ts_tensor *seeing)
{
    ts_attention_options o = *options;
    ts_tensor *in[] = {leaf(TS_SHAPE(B, H, T, D)), leaf(TS_SHAPE(B, G, S, D)),
                       leaf(TS_SHAPE(B, G, S, E))};
    ts_tensor *lse, *grad[3], *e_grad[3];
    o.enable_gqa = true;
    o.scale = 0.7;
    o.logsumexp = &lse;
    ts_generator_state state = ts_generator_get_state();
    ts_tensor *y = ts_scaled_dot_product_attention(in[0], in[1], in[2], &o);
    ts_tensor *s = ts_mul_scalar(ts_matmul(in[0], ts_transpose(repeated(in[1]), 2, 3)), 0.7);
    if (added) s = ts_add(s, added);
    ts_tensor *p = ts_softmax(s, 3);
    if (kept) {
        ts_generator_set_state(state);
        ts_tensor *drawn = ts_rand(TS_SHAPE(B, H, T, S), NULL);
        p = ts_mul(p, ts_mul(kept, ts_to_dtype(ts_ge_scalar(drawn, o.dropout_p), TS_FLOAT64)));
    }
    ts_tensor *e = ts_matmul(p, repeated(in[2])),
              *e_lse = ts_logsumexp(s, (const int[]){3}, 1, false);
    ts_tensor *weights = random_f64(TS_SHAPE(B, H, T, E)), *more = random_f64(TS_SHAPE(B, H, T));
    if (seeing) {
        e = ts_mul(e, seeing);
        TS_EXPECT_CLOSE(ts_detach(y), ts_detach(e), 1e-12, 1e-12);
        ts_tensor *root = ts_sum(ts_mul(y, weights)), *e_root = ts_sum(ts_mul(e, weights));
        TS_PASS(ts_grad_of(grad, &root, NULL, 1, in, 3, NULL));
        TS_PASS(ts_grad_of(e_grad, &e_root, NULL, 1, in, 3, NULL));
    } else {
        TS_EXPECT_CLOSE(ts_detach(y), ts_detach(e), 1e-12, 1e-12);
        TS_EXPECT_CLOSE(ts_detach(lse), ts_detach(e_lse), 1e-12, 1e-12);
        ts_tensor *root = ts_add(ts_sum(ts_mul(y, weights)), ts_sum(ts_mul(lse, more)));
        ts_tensor *e_root = ts_add(ts_sum(ts_mul(e, weights)), ts_sum(ts_mul(e_lse, more)));
        TS_PASS(ts_grad_of(grad, &root, NULL, 1, in, 3, NULL));
        TS_PASS(ts_grad_of(e_grad, &e_root, NULL, 1, in, 3, NULL));
    }
    for (int i = 0; i < 3; i++) TS_EXPECT_CLOSE(grad[i], e_grad[i], 1e-11, 1e-11);
}

TS_TEST(attention_with_grouped_heads_and_log_sum_exp)
{
    ts_attention_options o = TS_ATTENTION_OPTIONS_INIT;
    ts_manual_seed(4);
    check_options_case(test, &o, NULL, NULL, NULL);
}

TS_TEST(attention_adds_a_mask_that_is_broadcast)
{
    ts_attention_options o = TS_ATTENTION_OPTIONS_INIT;
    ts_manual_seed(5);
    o.attn_mask = random_f64(TS_SHAPE(T, S));
    check_options_case(test, &o, o.attn_mask, NULL, NULL);
    o.attn_mask = ts_transpose(random_f64(TS_SHAPE(B, 1, S, T)), 2, 3);
    check_options_case(test, &o, o.attn_mask, NULL, NULL);
    o.attn_mask = ts_expand(random_f64(TS_SHAPE(1, H, T, 1)), TS_SHAPE(B, H, T, S));
    check_options_case(test, &o, o.attn_mask, NULL, NULL);
}

/* Query 3 sees no key: 0, as PyTorch's. */
TS_TEST(attention_with_a_mask_of_bool)
{
    ts_attention_options o = TS_ATTENTION_OPTIONS_INIT;
    ts_manual_seed(6);
    ts_tensor *drawn = ts_rand(TS_SHAPE(T, S), NULL), *seeing = ts_ones(TS_SHAPE(T, 1), NULL);
    ts_fill_(ts_narrow(drawn, 0, 3, 1), 0);
    ts_fill_(ts_narrow(drawn, 1, 0, 130), 0); /* a whole block of keys that none sees */
    ts_fill_(ts_narrow(drawn, 1, 140, 1), 1);
    ts_fill_(ts_narrow(drawn, 0, 3, 1), 0);
    ts_fill_(ts_narrow(seeing, 0, 3, 1), 0);
    o.attn_mask = ts_ge_scalar(drawn, 0.5);
    ts_tensor *added = ts_mul_scalar(ts_to_dtype(ts_lt_scalar(drawn, 0.5), TS_FLOAT64), -1e30);
    check_options_case(test, &o, added, NULL, ts_to_dtype(seeing, TS_FLOAT64));
}

TS_TEST(attention_is_causal_from_the_top_left)
{
    ts_attention_options o = TS_ATTENTION_OPTIONS_INIT;
    ts_manual_seed(7);
    o.is_causal = true;
    ts_tensor *added = ts_to_dtype(ts_zeros(TS_SHAPE(T, S), NULL), TS_FLOAT64);
    for (int i = 0; i < T; i++)
        ts_fill_(ts_narrow(ts_select(added, 0, i), 0, i + 1, S - i - 1), -1e30);
    check_options_case(test, &o, added, NULL, NULL);
}

TS_TEST(attention_drops_probabilities)
{
    ts_attention_options o = TS_ATTENTION_OPTIONS_INIT;
    ts_manual_seed(8);
    o.dropout_p = 0.5;
    ts_tensor *kept = ts_to_dtype(ts_full(TS_SHAPE(1), 2, NULL), TS_FLOAT64);
    check_options_case(test, &o, NULL, kept, NULL);
}

TS_TEST(attention_options_on_halves_and_without_elements)
{
    ts_attention_options o = TS_ATTENTION_OPTIONS_INIT;
    ts_tensor *lse, *q = ts_to_dtype(ts_randn(TS_SHAPE(1, 2, 5, 8), NULL), TS_BFLOAT16);
    o.attn_mask = ts_to_dtype(ts_randn(TS_SHAPE(5, 5), NULL), TS_BFLOAT16);
    o.logsumexp = &lse;
    ts_tensor *y = ts_scaled_dot_product_attention(q, q, q, &o);
    ts_tensor *up = ts_to_dtype(q, TS_FLOAT32);
    o.attn_mask = ts_to_dtype(o.attn_mask, TS_FLOAT32);
    o.logsumexp = NULL;
    TS_EXPECT_INT(ts_tensor_dtype(y), TS_BFLOAT16);
    TS_EXPECT_INT(ts_tensor_dtype(lse), TS_FLOAT32);
    TS_EXPECT_EQUAL(y, ts_to_dtype(ts_scaled_dot_product_attention(up, up, up, &o), TS_BFLOAT16));
    ts_tensor *none = ts_zeros(TS_SHAPE(1, 2, 0, 8), NULL);
    o = (ts_attention_options)TS_ATTENTION_OPTIONS_INIT;
    o.logsumexp = &lse;
    TS_EXPECT_ALL(ts_scaled_dot_product_attention(up, none, none, &o), 0);
    TS_EXPECT_ALL(lse, -INFINITY);
    TS_EXPECT_INT(ts_numel(ts_scaled_dot_product_attention(none, up, up, &o)), 0);
}

/* Without anything to compare, all keys count alike. */
TS_TEST(attention_of_no_width_is_the_mean)
{
    ts_attention_options o = TS_ATTENTION_OPTIONS_INIT;
    ts_tensor *lse, *empty = ts_zeros(TS_SHAPE(1, 2, 5, 0), NULL);
    ts_tensor *v = ts_randn(TS_SHAPE(1, 2, 5, 3), NULL);
    TS_PASS(ts_set_requires_grad(v, true));
    o.logsumexp = &lse;
    ts_tensor *y = ts_scaled_dot_product_attention(empty, empty, v, &o);
    TS_EXPECT_CLOSE(y, ts_expand(ts_mean_dim(v, 2, true), TS_SHAPE(1, 2, 5, 3)), 1e-6, 1e-6);
    TS_EXPECT_CLOSE(lse, ts_full(TS_SHAPE(1, 2, 5), log(5), NULL), 1e-6, 1e-6);
    TS_PASS(ts_backward(ts_sum(y)));
    TS_EXPECT_CLOSE(ts_grad(v), ts_ones(TS_SHAPE(1, 2, 5, 3), NULL), 1e-6, 1e-6);
}

TS_TEST(attention_options_that_do_not_fit)
{
    ts_attention_options o = TS_ATTENTION_OPTIONS_INIT;
    ts_tensor *q = ts_zeros(TS_SHAPE(2, 4, 3, 4), NULL), *k = ts_zeros(TS_SHAPE(2, 2, 3, 4), NULL);
    TS_BAD(ts_scaled_dot_product_attention(q, k, k, &o), TS_ESHAPE, "enable_gqa");
    o.attn_mask = ts_zeros(TS_SHAPE(2, 3), NULL);
    TS_BAD(ts_scaled_dot_product_attention(q, q, q, &o), TS_ESHAPE, "attn_mask (2, 3)");
    o.attn_mask = ts_to_dtype(q, TS_INT64);
    TS_BAD(ts_scaled_dot_product_attention(q, q, q, &o), TS_EDTYPE, "attn_mask is int64");
    o.attn_mask = ts_zeros(TS_SHAPE(3, 3), NULL);
    o.is_causal = true;
    TS_BAD(ts_scaled_dot_product_attention(q, q, q, &o), TS_EINVAL, "exclude each other");
    o.is_causal = false;
    TS_PASS(ts_set_requires_grad(o.attn_mask, true));
    TS_BAD(ts_scaled_dot_product_attention(q, q, q, &o), TS_EUNSUPPORTED, "gradient");
    o.attn_mask = NULL;
    o.dropout_p = 2;
    ts_tensor *lse = NULL;
    o.logsumexp = &lse;
    TS_BAD(ts_scaled_dot_product_attention(q, q, q, &o), TS_EINVAL, "dropout_p is 2");
    TS_EXPECT(ts_failed(lse));
    lse = NULL;
    o.dropout_p = 0;
    TS_BAD(ts_scaled_dot_product_attention(q, q, NULL, &o), TS_EINVAL, "attention");
    TS_EXPECT(ts_failed(lse));
}
