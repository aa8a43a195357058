/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2 as transformers keeps it: other names, linear weights the other way round. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/formats.h>
#include <tessera/scope.h>
#include <unistd.h>

#include "base/memory.h"
#include "models/gpt.h"
#include "nn/module.h"
#include "tensor/tensor.h"

/* ---- weights --------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Linear layers of a block, by the end of the name. */
static bool is_linear(const char *name)
{
    return ends_with(name, ".c_attn.weight") || ends_with(name, ".c_proj.weight") ||
           ends_with(name, ".c_fc.weight");
}

/* Causal masks, which old files hold. */
static bool is_mask(const char *name)
{
    return ends_with(name, ".attn.bias") || ends_with(name, ".attn.masked_bias");
}

/* c_attn is (C, 3 C) where weights are (in, out); square ones would not tell. */
static bool is_turned(const ts_object *map)
{
    for (int64_t i = 0; i < ts_object_count(map); i++) {
        if (!ends_with(ts_object_key_at(map, i), ".c_attn.weight")) continue;
        ts_shape shape = ts_tensor_shape(ts_object_as_tensor(ts_object_at(map, i)));
        return shape.ndim == 2 && shape.dim[1] == 3 * shape.dim[0];
    }
    return false;
}

static ts_status add_weight(ts_tensor_list *list, const char *name, ts_tensor *t, bool turned)
{
    const char *prefix = "transformer.";
    bool inside = strncmp(name, "h.", 2) == 0 || strncmp(name, "wte.", 4) == 0 ||
                  strncmp(name, "wpe.", 4) == 0 || strncmp(name, "ln_f.", 5) == 0;
    if (turned && is_linear(name)) t = ts_transpose(t, 0, 1);
    char *full = ts_asprintf("%s%s", inside ? prefix : "", name);
    if (!full) return ts_fail_memory(strlen(name), "the name of a weight");
    ts_status status = ts_tensor_list_add(list, full, t);
    free(full);
    return status;
}

static ts_status add_weights(ts_tensor_list *list, const ts_object *map)
{
    TS_TRY(ts_object_status(map));
    bool turned = is_turned(map);
    for (int64_t i = 0; i < ts_object_count(map); i++) {
        const char *name = ts_object_key_at(map, i);
        if (is_mask(name)) continue;
        if (ts_object_kind_of(ts_object_at(map, i)) != TS_OBJECT_TENSOR)
            return ts_fail(TS_EINVAL, "gpt_load: '%s' is no tensor; the file is not a state dict",
                           name);
        TS_TRY(add_weight(list, name, ts_object_as_tensor(ts_object_at(map, i)), turned));
    }
    return TS_OK;
}

ts_status ts_gpt_load(ts_module *gpt, const char *path)
{
    if (!ts_gpt_state(gpt))
        return ts_module_status(gpt) == TS_OK ? TS_EINVAL : ts_module_status(gpt);
    ts_tensor_list *list = ts_tensor_list_new();
    if (!list) return TS_ENOMEM;
    ts_scope scope = ts_scope_begin();
    ts_object *map = ts_load(path, NULL);
    ts_status status = add_weights(list, map);
    if (status == TS_OK) status = ts_module_load_state_dict(gpt, list, true);
    ts_object_free(map);
    ts_tensor_list_free(list);
    ts_scope_end(scope);
    return status;
}

/* ---- config.json ----------------------------------------------------------------------------- */

static ts_status read_int(int64_t *out, const cJSON *config, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(config, name);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 1 && item->valuedouble < 1e15))
        return ts_fail(TS_EFORMAT, "gpt_from_pretrained: config.json has no whole number '%s'",
                       name);
    *out = (int64_t)item->valuedouble;
    return TS_OK;
}

static bool says_otherwise(const cJSON *config, const char *name, const char *expected)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(config, name));
    return text && strcmp(text, expected) != 0;
}

/* Variants that the model here is not. */
static ts_status check_config(const cJSON *config)
{
    const cJSON *inner = cJSON_GetObjectItemCaseSensitive(config, "n_inner");
    const cJSON *eps = cJSON_GetObjectItemCaseSensitive(config, "layer_norm_epsilon");
    const cJSON *by_layer =
        cJSON_GetObjectItemCaseSensitive(config, "scale_attn_by_inverse_layer_idx");
    const char *what = NULL;
    if (says_otherwise(config, "model_type", "gpt2")) what = "model_type";
    if (says_otherwise(config, "activation_function", "gelu_new")) what = "activation_function";
    if (cJSON_IsNumber(inner)) what = "n_inner";
    if (cJSON_IsNumber(eps) && eps->valuedouble != 1e-5) what = "layer_norm_epsilon";
    if (cJSON_IsTrue(by_layer)) what = "scale_attn_by_inverse_layer_idx";
    if (!what) return TS_OK;
    return ts_fail(TS_EUNSUPPORTED, "gpt_from_pretrained: the %s of config.json is not GPT-2's",
                   what);
}

static ts_status parse_config(ts_gpt_options *opt, const cJSON *config)
{
    if (!cJSON_IsObject(config))
        return ts_fail(TS_EFORMAT, "gpt_from_pretrained: config.json is not a JSON object");
    TS_TRY(check_config(config));
    TS_TRY(read_int(&opt->vocab_size, config, "vocab_size"));
    TS_TRY(read_int(&opt->block_size, config, "n_positions"));
    TS_TRY(read_int(&opt->n_layer, config, "n_layer"));
    TS_TRY(read_int(&opt->n_head, config, "n_head"));
    return read_int(&opt->n_embd, config, "n_embd");
}

static ts_status read_config(ts_gpt_options *opt, const char *folder)
{
    char *path = ts_asprintf("%s/config.json", folder);
    if (!path) return ts_fail_memory(strlen(folder), "a path");
    ts_tensor *file = ts_map_file(path);
    free(path);
    TS_TRY(ts_tensor_check(file, "config.json"));
    const char *text = ts_data(file);
    cJSON *config = cJSON_ParseWithLength(text ? text : "", ts_nbytes(file));
    ts_status status = parse_config(opt, config);
    cJSON_Delete(config);
    return status;
}

static ts_status load_folder(ts_module *gpt, const char *folder)
{
    char *path = ts_asprintf("%s/model.safetensors", folder);
    if (path && access(path, F_OK) != 0) {
        free(path);
        path = ts_asprintf("%s/pytorch_model.bin", folder);
    }
    if (!path) return ts_fail_memory(strlen(folder), "a path");
    ts_status status = ts_gpt_load(gpt, path);
    free(path);
    return status;
}

ts_module *ts_gpt_from_pretrained(const char *folder)
{
    ts_gpt_options opt = TS_GPT_OPTIONS_INIT;
    if (!folder)
        return ts_module_fail_last(
            ts_fail(TS_EINVAL, "gpt_from_pretrained: the folder is missing (NULL)"));
    ts_scope scope = ts_scope_begin();
    ts_status status = read_config(&opt, folder);
    ts_scope_end(scope);
    if (status != TS_OK) return ts_module_fail_last(status);
    ts_module *gpt = ts_gpt_new(&opt);
    status = ts_module_status(gpt);
    if (status == TS_OK) status = load_folder(gpt, folder);
    ts_module_train(gpt, false);
    if (status == TS_OK) return gpt;
    ts_module_free(gpt);
    return ts_module_fail_last(status);
}
