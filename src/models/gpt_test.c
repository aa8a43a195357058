/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"
#include <sys/resource.h>

static ts_gpt_options small(void)
{
    ts_gpt_options o = TS_GPT_OPTIONS_INIT;
    o.vocab_size = 11;
    o.block_size = 6;
    o.n_layer = 2;
    o.n_head = 2;
    o.n_embd = 4;
    return o;
}

static ts_tensor *tokens_of(int64_t batch, int64_t seq, uint64_t seed)
{
    ts_manual_seed(seed);
    return ts_randint(0, 11, TS_SHAPE(batch, seq), NULL);
}

TS_TEST(gpt_has_the_names_and_shapes_of_gpt2)
{
    static const char *const block[] = {
        "ln_1.weight",        "ln_1.bias",        "attn.c_attn.weight", "attn.c_attn.bias",
        "attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight",        "ln_2.bias",
        "mlp.c_fc.weight",    "mlp.c_fc.bias",    "mlp.c_proj.weight",  "mlp.c_proj.bias"};
    ts_gpt_options o = small();
    ts_module *m = ts_gpt_new(&o);
    ts_tensor_list *list = ts_module_parameters(m);
    int64_t at = 0;
    TS_EXPECT_STR(ts_tensor_list_name(list, at++), "transformer.wte.weight");
    TS_EXPECT_STR(ts_tensor_list_name(list, at++), "transformer.wpe.weight");
    for (int layer = 0; layer < 2; layer++)
        for (int i = 0; i < 12; i++) {
            char name[80];
            snprintf(name, sizeof name, "transformer.h.%d.%s", layer, block[i]);
            TS_EXPECT_STR(ts_tensor_list_name(list, at), name);
            TS_EXPECT_STR(ts_tensor_name(ts_tensor_list_get(list, at++)), name);
        }
    TS_EXPECT_STR(ts_tensor_list_name(list, at++), "transformer.ln_f.weight");
    TS_EXPECT_STR(ts_tensor_list_name(list, at++), "transformer.ln_f.bias");
    TS_EXPECT_INT(ts_tensor_list_count(list), at);
    ts_tensor *joint = ts_module_parameter(m, "transformer.h.1.attn.c_attn.weight");
    TS_EXPECT(ts_shape_equal(ts_tensor_shape(joint), TS_SHAPE(12, 4)));
    TS_EXPECT(ts_module_parameter(m, "lm_head.weight") == ts_tensor_list_get(list, 0));
    ts_tensor_list *state = ts_module_state_dict(m);
    TS_EXPECT_INT(ts_tensor_list_count(state), at + 1);
    TS_EXPECT_STR(ts_tensor_list_name(state, at), "lm_head.weight");
    double per_token = 6.0 * (double)ts_module_num_parameters(m) + 12.0 * 2 * 4 * 6;
    TS_EXPECT_NEAR(ts_gpt_step_flops(&o, 3, 6), per_token * 18, 0);
    ts_tensor_list_free(state);
    ts_tensor_list_free(list);
    ts_module_free(m);
    o.bias = false;
    m = ts_gpt_new(&o);
    TS_EXPECT(!ts_module_parameter(m, "transformer.h.0.ln_1.bias"));
    TS_EXPECT(!ts_module_parameter(m, "transformer.h.0.mlp.c_fc.bias"));
    per_token = 6.0 * (double)ts_module_num_parameters(m) + 12.0 * 2 * 4 * 6;
    TS_EXPECT_NEAR(ts_gpt_step_flops(&o, 3, 6), per_token * 18, 0);
    ts_module_free(m);
}

TS_TEST(gpt_starts_near_uniform)
{
    ts_gpt_options o = small();
    o.n_embd = 32;
    ts_module *m = ts_gpt_new(&o);
    ts_tensor *x = tokens_of(3, 6, 1), *logits = ts_forward(m, x);
    TS_EXPECT(ts_shape_equal(ts_tensor_shape(logits), TS_SHAPE(3, 6, 11)));
    double loss;
    TS_PASS(ts_item(ts_module_call(m, (ts_tensor *[]){x, tokens_of(3, 6, 2)}, 2), &loss));
    TS_EXPECT_NEAR(loss, log(11.0), 0.1);
    double std;
    TS_PASS(ts_item(ts_norm(ts_module_parameter(m, "transformer.h.0.mlp.c_fc.weight"), 2), &std));
    TS_EXPECT_NEAR(std / sqrt(32.0 * 128.0), 0.02, 0.001);
    TS_PASS(ts_item(ts_norm(ts_module_parameter(m, "transformer.h.0.mlp.c_proj.weight"), 2), &std));
    TS_EXPECT_NEAR(std / sqrt(32.0 * 128.0), 0.01, 0.0005);
    TS_EXPECT_ALL(ts_detach(ts_module_parameter(m, "transformer.h.0.mlp.c_fc.bias")), 0.0);
    ts_module_free(m);
}

TS_TEST(gpt_looks_only_back)
{
    ts_gpt_options o = small();
    ts_module *m = ts_gpt_new(&o);
    ts_tensor *x = tokens_of(1, 6, 1), *cut = ts_narrow(x, 1, 0, 4);
    TS_EXPECT_CLOSE(ts_detach(ts_narrow(ts_forward(m, x), 1, 0, 4)), ts_detach(ts_forward(m, cut)),
                    1e-6, 1e-6);
    ts_module_free(m);
}

static ts_tensor *loss_of_parameters(ts_tensor *const *inputs, int n, void *user)
{
    ts_module *m = user;
    (void)inputs, (void)n; /* the module's own parameters */
    return ts_module_call(m, (ts_tensor *[]){tokens_of(2, 3, 5), tokens_of(2, 3, 6)}, 2);
}

TS_TEST(gpt_gradients_agree_with_differences)
{
    ts_gpt_options o = small();
    o.dtype = TS_FLOAT64;
    ts_module *m = ts_gpt_new(&o);
    ts_tensor_list *list = ts_module_parameters(m);
    ts_tensor *params[40];
    int n = (int)ts_tensor_list_count(list);
    ts_manual_seed(9);
    for (int i = 0; i < n; i++) {
        params[i] = ts_tensor_list_get(list, i);
        TS_GOOD(
            ts_init_normal_(params[i], strstr(ts_tensor_name(params[i]), "ln") ? 1.0 : 0.0, 0.3));
    }
    TS_PASS(ts_gradcheck(loss_of_parameters, params, n, m, 1e-5, 1e-7, 1e-5));
    ts_tensor_list_free(list);
    ts_module_free(m);
}

TS_TEST(gpt_training_steps_keep_the_ledger_level)
{
    ts_gpt_options o = small();
    ts_module *m = ts_gpt_new(&o);
    ts_tensor_list *params = ts_module_parameters(m);
    ts_optim *optim;
    ts_memory_stats stats[4];
    TS_PASS(ts_adamw_new(&optim, ts_module_parameters(m), NULL));
    for (int step = 0; step < 4; step++) {
        ts_scope scope = ts_scope_begin();
        TS_PASS(ts_backward(loss_of_parameters(NULL, 0, m)));
        TS_PASS(ts_clip_grad_norm(NULL, params, 1.0, 2.0));
        TS_PASS(ts_optim_step(optim));
        ts_optim_zero_grad(optim);
        TS_PASS(ts_scope_end(scope));
        ts_memory_read(&stats[step]);
    }
    int64_t bytes = 4 * ts_module_num_parameters(m);
    TS_EXPECT_INT(stats[3].current_total, stats[1].current_total);
    TS_EXPECT_INT(stats[3].peak_total, stats[1].peak_total);
    TS_EXPECT_INT(stats[3].pool_bytes, stats[1].pool_bytes);
    TS_EXPECT_INT(stats[3].current[TS_CATEGORY_PARAMETER], bytes);
    TS_EXPECT_INT(stats[3].current[TS_CATEGORY_OPTIMIZER],
                  2 * bytes + 4 * ts_tensor_list_count(params));
    TS_EXPECT_INT(stats[3].current[TS_CATEGORY_GRADIENT], 0);
    TS_EXPECT_INT(stats[3].current[TS_CATEGORY_ACTIVATION], 0);
    ts_optim_free(optim);
    ts_tensor_list_free(params);
    ts_module_free(m);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static long page_faults(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_minflt : -1;
}

/* After the first steps all memory comes from the pools. */
TS_TEST(gpt_training_steps_touch_no_new_pages)
{
    ts_gpt_options o = small();
    ts_module *m = ts_gpt_new(&o);
    ts_optim *optim;
    long before = 0;
    TS_PASS(ts_adamw_new(&optim, ts_module_parameters(m), NULL));
    for (int step = 0; step < 60; step++) {
        if (step == 20) before = page_faults();
        ts_scope scope = ts_scope_begin();
        TS_PASS(ts_backward(loss_of_parameters(NULL, 0, m)));
        TS_PASS(ts_optim_step(optim));
        ts_optim_zero_grad(optim);
        TS_PASS(ts_scope_end(scope));
    }
    TS_EXPECT(page_faults() - before < 10);
    ts_optim_free(optim);
    ts_module_free(m);
}
#endif

TS_TEST(gpt_refuses_wrong_arguments)
{
    ts_gpt_options o = small();
    ts_module *m = ts_gpt_new(&o);
    TS_BAD(ts_forward(m, tokens_of(1, 7, 1)), TS_ESHAPE,
           "transformer: gpt: a context of 7 tokens is longer than block_size 6");
    TS_BAD(ts_forward(m, ts_randint(0, 11, TS_SHAPE(3), NULL)), TS_ESHAPE, "1 dimensions");
    TS_BAD(ts_module_call(m, NULL, 0), TS_EINVAL, "not 0 tensors");
    TS_BAD(ts_forward(m, ts_full(TS_SHAPE(1, 2), 11,
                                 &(ts_tensor_options){.struct_size = sizeof(ts_tensor_options),
                                                      .dtype = TS_INT64})),
           TS_EINVAL, "transformer.wte: embedding");
    TS_BAD(ts_forward(m, NULL), TS_EINVAL, "tokens are missing");
    TS_BAD(ts_forward(m, ts_zeros(TS_SHAPE(-1), NULL)), TS_ESHAPE, "-1");
    ts_module_free(m);
    o.n_head = 3;
    m = ts_gpt_new(&o);
    TS_FAIL(ts_module_status(m), TS_EINVAL, "n_embd 4 is not a multiple of n_head 3");
    ts_module_free(m);
    o.n_layer = 0;
    m = ts_gpt_new(&o);
    TS_FAIL(ts_module_status(m), TS_EINVAL, "at least 1");
    ts_module_free(m);
}

/* ---- generation ------------------------------------------------------------------------------ */

/* The likeliest next token by a full forward. */
static int64_t next_by_forward(ts_module *m, const int64_t *tokens, int64_t n)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    ts_tensor *logits = ts_forward(m, ts_from_data(tokens, TS_SHAPE(1, n), &opt));
    int64_t best = -1;
    ts_item_int(ts_argmax(ts_select(ts_select(logits, 0, 0), 0, n - 1), 0, false), &best);
    return best;
}

static ts_module *wild_gpt(ts_gpt_options o)
{
    ts_module *m = ts_gpt_new(&o);
    ts_tensor_list *list = ts_module_parameters(m);
    ts_manual_seed(3);
    for (int64_t i = 0; i < ts_tensor_list_count(list); i++) {
        /* Strong positions, so that it does not just repeat the last token. */
        bool positions = strstr(ts_tensor_list_name(list, i), "wpe") != NULL;
        ts_init_normal_(ts_tensor_list_get(list, i), 0.0, positions ? 3.0 : 0.7);
    }
    ts_tensor_list_free(list);
    return m;
}

TS_TEST(gpt_cache_gives_the_tokens_of_full_forwards)
{
    ts_gpt_options o = small();
    o.block_size = 24;
    ts_module *m = wild_gpt(o);
    int64_t tokens[24] = {3, 1, 4}, count = 3, different = 0;
    ts_generate_options opt = TS_GENERATE_OPTIONS_INIT;
    opt.max_new_tokens = 21;
    opt.temperature = 0;
    TS_PASS(ts_gpt_generate(m, tokens, &count, &opt));
    TS_EXPECT_INT(count, 24);
    for (int64_t n = 3; n < 24; n++) {
        TS_EXPECT_INT(tokens[n], next_by_forward(m, tokens, n));
        different += tokens[n] != tokens[n - 1];
    }
    TS_EXPECT(different > 2); /* it did not just repeat itself */
    ts_module_free(m);
}

TS_TEST(gpt_generation_slides_over_long_contexts)
{
    ts_gpt_options o = small();
    ts_module *m = wild_gpt(o);
    int64_t tokens[30] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, count = 9;
    ts_generate_options opt = TS_GENERATE_OPTIONS_INIT;
    opt.max_new_tokens = 20;
    opt.temperature = 0;
    TS_PASS(ts_gpt_generate(m, tokens, &count, &opt));
    TS_EXPECT_INT(count, 29);
    /* First the last 6 tokens, then the last 3, 4, 5, 6, 3, ... */
    int64_t seen = 6;
    for (int64_t n = 9; n < 29; n++) {
        TS_EXPECT_INT(tokens[n], next_by_forward(m, tokens + n - seen, seen));
        seen = seen == 6 ? 3 : seen + 1;
    }
    ts_module_free(m);
    o.block_size = 1;
    m = wild_gpt(o);
    TS_PASS(ts_gpt_generate(m, tokens, (count = 9, &count), &opt));
    TS_EXPECT_INT(tokens[20], next_by_forward(m, tokens + 19, 1));
    ts_module_free(m);
}

TS_TEST(gpt_generation_is_decided_by_its_seed)
{
    ts_gpt_options o = small();
    o.block_size = 40;
    o.dropout = 0.5;
    ts_module *m = wild_gpt(o);
    int64_t a[33] = {1}, b[33] = {1}, c[33] = {1}, count;
    ts_generate_options opt = TS_GENERATE_OPTIONS_INIT;
    opt.max_new_tokens = 32;
    opt.temperature = 2.0;
    opt.seed = 5;
    ts_module_train(ts_module_child(m, "transformer.ln_f"), false);
    ts_generator_state before = ts_generator_get_state();
    TS_PASS(ts_gpt_generate(m, a, (count = 1, &count), &opt));
    TS_PASS(ts_gpt_generate(m, b, (count = 1, &count), &opt));
    TS_EXPECT(memcmp(a, b, sizeof a) == 0);
    ts_generator_state after = ts_generator_get_state();
    TS_EXPECT(before.seed == after.seed && before.offset == after.offset);
    TS_EXPECT(ts_module_is_training(m) &&
              ts_module_is_training(ts_module_child(m, "transformer.h.1")));
    TS_EXPECT(!ts_module_is_training(ts_module_child(m, "transformer.ln_f")));
    opt.seed = 6;
    TS_PASS(ts_gpt_generate(m, c, (count = 1, &count), &opt));
    TS_EXPECT(memcmp(a, c, sizeof a) != 0);
    opt.top_k = 1; /* only the likeliest is left */
    TS_PASS(ts_gpt_generate(m, a, (count = 1, &count), &opt));
    opt.top_k = 0;
    opt.temperature = 0;
    TS_PASS(ts_gpt_generate(m, b, (count = 1, &count), &opt));
    TS_EXPECT(memcmp(a, b, sizeof a) == 0);
    ts_module_free(m);
}

TS_TEST(gpt_generation_leaves_nothing_behind)
{
    ts_gpt_options o = small();
    ts_module *m = ts_gpt_new(&o);
    int64_t tokens[10] = {1}, count = 1;
    ts_generate_options opt = TS_GENERATE_OPTIONS_INIT;
    opt.max_new_tokens = 9;
    ts_memory_stats before, after;
    ts_memory_read(&before);
    TS_PASS(ts_gpt_generate(m, tokens, &count, &opt));
    ts_memory_read(&after);
    TS_EXPECT_INT(after.current_total, before.current_total);
    TS_GOOD(ts_forward(m, tokens_of(2, 6, 1)));
    ts_module_free(m);
}

TS_TEST(gpt_generation_refuses_wrong_arguments)
{
    ts_gpt_options o = small();
    ts_module *m = ts_gpt_new(&o), *other = ts_relu_new();
    int64_t tokens[4] = {1, 11}, count = 0;
    ts_generate_options opt = TS_GENERATE_OPTIONS_INIT;
    opt.max_new_tokens = 1;
    TS_FAIL(ts_gpt_generate(m, tokens, &count, &opt), TS_EINVAL, "at least one token");
    count = 2;
    TS_FAIL(ts_gpt_generate(m, tokens, &count, &opt), TS_EINVAL, "token 11 at 1 is not in 0 .. 10");
    count = 1;
    opt.temperature = -1;
    TS_FAIL(ts_gpt_generate(m, tokens, &count, &opt), TS_EINVAL, "temperature -1");
    TS_FAIL(ts_gpt_generate(other, tokens, &count, NULL), TS_EINVAL, "a ReLU is not a GPT");
    TS_FAIL(ts_gpt_generate(NULL, tokens, &count, NULL), TS_EINVAL, "missing");
    TS_EXPECT_INT(count, 1);
    ts_module_free(m);
    ts_module_free(other);
}
