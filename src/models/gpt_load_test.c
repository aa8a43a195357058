/* SPDX-License-Identifier: Apache-2.0 */
/* tests/golden/files/gpt2 is what transformers' save_pretrained wrote; answers.bin is what its
 * GPT2LMHeadModel says. */
#include <tessera/formats.h>

#include "golden.h"
#include "test.h"

TS_TEST(gpt2_of_transformers_gives_its_logits)
{
    ts_tensor_list *answers;
    TS_PASS(ts_golden_read(&answers, "tests/golden/files/gpt2/answers.bin"));
    ts_module *m = ts_gpt_from_pretrained(ts_test_path("tests/golden/files/gpt2"));
    TS_PASS(ts_module_status(m));
    TS_EXPECT(!ts_module_is_training(m));
    ts_tensor *logits = ts_forward(m, ts_golden_get(answers, "tokens"));
    TS_GOOD(logits);
    TS_EXPECT_CLOSE(ts_detach(logits), ts_golden_get(answers, "logits"), 1e-4, 1e-4);
    ts_module_free(m);
    ts_tensor_list_free(answers);
}

TS_TEST(gpt2_of_transformers_generates)
{
    ts_tensor_list *answers;
    int64_t tokens[17], expected[17], count = 5;
    TS_PASS(ts_golden_read(&answers, "tests/golden/files/gpt2/answers.bin"));
    TS_PASS(ts_copy_out(ts_golden_get(answers, "greedy"), expected, sizeof expected));
    memcpy(tokens, expected, 5 * sizeof *tokens);
    ts_module *m = ts_gpt_from_pretrained(ts_test_path("tests/golden/files/gpt2"));
    ts_generate_options opt = TS_GENERATE_OPTIONS_INIT;
    opt.max_new_tokens = 12;
    opt.temperature = 0;
    TS_PASS(ts_gpt_generate(m, tokens, &count, &opt));
    TS_EXPECT_INT(count, 17);
    TS_EXPECT(memcmp(tokens, expected, sizeof tokens) == 0);
    ts_module_free(m);
    ts_tensor_list_free(answers);
}

/* What is saved here loads again, in its own layout, which no shape tells from the other. */
TS_TEST(gpt_load_tells_the_layouts_apart)
{
    char path[512];
    ts_module *m = ts_gpt_from_pretrained(ts_test_path("tests/golden/files/gpt2"));
    ts_module *other = ts_gpt_from_pretrained(ts_test_path("tests/golden/files/gpt2"));
    snprintf(path, sizeof path, "%s/gpt.safetensors", test->dir);
    TS_PASS(ts_module_save(m, path));
    ts_init_constant_(ts_module_parameter(other, "transformer.h.0.attn.c_proj.weight"), 0.0);
    TS_PASS(ts_gpt_load(other, path));
    TS_EXPECT_EQUAL(ts_detach(ts_module_parameter(other, "transformer.h.0.attn.c_proj.weight")),
                    ts_detach(ts_module_parameter(m, "transformer.h.0.attn.c_proj.weight")));
    ts_module_free(m);
    ts_module_free(other);
}

TS_TEST(gpt_load_says_what_is_wrong)
{
    char path[512];
    ts_module *linear = ts_linear_new(2, 2, NULL), *m = ts_gpt_new(NULL);
    const char *weights = ts_test_path("tests/golden/files/gpt2/model.safetensors");
    TS_FAIL(ts_gpt_load(linear, weights), TS_EINVAL, "not a GPT");
    TS_FAIL(ts_gpt_load(m, weights), TS_EINVAL, "missing: transformer.h.2.");
    ts_module_free(linear);
    ts_module_free(m);
    snprintf(path, sizeof path, "%s/config.json", test->dir);
    FILE *f = fopen(path, "w");
    fputs("{\"model_type\": \"gpt2\", \"activation_function\": \"relu\"}", f);
    fclose(f);
    m = ts_gpt_from_pretrained(test->dir);
    TS_FAIL(ts_module_status(m), TS_EUNSUPPORTED, "activation_function");
    ts_module_free(m);
    m = ts_gpt_from_pretrained("/no/such/folder");
    TS_FAIL(ts_module_status(m), TS_EIO, "/no/such/folder/config.json");
    ts_module_free(m);
}
