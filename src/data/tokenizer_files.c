/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json, vocab.json and merges.txt. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tessera/scope.h>
#include <unistd.h>

#include "data/tokenizer_impl.h"
#include "formats/utf8.h"
#include "tensor/tensor.h"

static const cJSON *get(const cJSON *map, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(map, key);
}

static bool is_text(const cJSON *item, const char *text)
{
    return cJSON_IsString(item) && strcmp(item->valuestring, text) == 0;
}

/* Not there, null, false or "". */
static bool is_unset(const cJSON *item)
{
    return !item || cJSON_IsNull(item) || cJSON_IsFalse(item) || is_text(item, "");
}

static ts_status unsupported(const char *what, const cJSON *item)
{
    const char *text = cJSON_GetStringValue(cJSON_IsObject(item) ? get(item, "type") : item);
    return ts_fail(TS_EUNSUPPORTED, "tokenizer: the %s %s is not offered; byte-level BPE is", what,
                   text ? text : "of the file");
}

/* ---- the model ------------------------------------------------------------------------------- */

static ts_status read_vocab(ts_tokenizer *t, const cJSON *vocab)
{
    const cJSON *item;
    if (!cJSON_IsObject(vocab))
        return ts_fail(TS_EFORMAT, "tokenizer: the vocabulary is not a map of tokens to numbers");
    cJSON_ArrayForEach(item, vocab)
    {
        if (!cJSON_IsNumber(item))
            return ts_fail(TS_EFORMAT, "tokenizer: the token '%s' has no number", item->string);
        TS_TRY(ts_tokenizer_add_token(t, item->string, item->valuedouble));
    }
    return TS_OK;
}

/* "left right" */
static ts_status add_line(ts_tokenizer *t, const char *line, size_t size)
{
    const char *space = memchr(line, ' ', size);
    if (!space || space == line || space + 1 == line + size)
        return ts_fail(TS_EFORMAT, "tokenizer: the merge '%.*s' is not two tokens",
                       (int)(size < 200 ? size : 200), line);
    return ts_tokenizer_add_merge(t, line, (size_t)(space - line), space + 1,
                                  size - (size_t)(space + 1 - line));
}

/* Either text with a space, or a list of two texts. */
static ts_status read_merges(ts_tokenizer *t, const cJSON *merges)
{
    const cJSON *item;
    if (!cJSON_IsArray(merges)) return ts_fail(TS_EFORMAT, "tokenizer: there is no list of merges");
    cJSON_ArrayForEach(item, merges)
    {
        const char *line = cJSON_GetStringValue(item);
        const char *left = cJSON_GetStringValue(cJSON_GetArrayItem(item, 0));
        const char *right = cJSON_GetStringValue(cJSON_GetArrayItem(item, 1));
        if (line)
            TS_TRY(add_line(t, line, strlen(line)));
        else if (left && right)
            TS_TRY(ts_tokenizer_add_merge(t, left, strlen(left), right, strlen(right)));
        else
            return ts_fail(TS_EFORMAT, "tokenizer: a merge is not two tokens");
    }
    return TS_OK;
}

static ts_status read_model(ts_tokenizer *t, const cJSON *model)
{
    if (!cJSON_IsObject(model)) return ts_fail(TS_EFORMAT, "tokenizer: there is no model");
    if (get(model, "type") && !is_text(get(model, "type"), "BPE"))
        return unsupported("model", model);
    static const char *const others[] = {"byte_fallback", "continuing_subword_prefix",
                                         "end_of_word_suffix", "dropout"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!is_unset(get(model, others[i]))) return unsupported(others[i], get(model, others[i]));
    t->ignore_merges = cJSON_IsTrue(get(model, "ignore_merges"));
    TS_TRY(read_vocab(t, get(model, "vocab")));
    return read_merges(t, get(model, "merges"));
}

/* ---- what is done before it ------------------------------------------------------------------ */

static ts_status read_byte_level(ts_tokenizer *t, const cJSON *item)
{
    t->prefix_space = cJSON_IsTrue(get(item, "add_prefix_space"));
    if (!cJSON_IsFalse(get(item, "use_regex"))) t->split = TS_SPLIT_GPT2;
    return TS_OK;
}

static ts_status read_split(ts_tokenizer *t, const cJSON *item)
{
    const char *pattern = cJSON_GetStringValue(get(get(item, "pattern"), "Regex"));
    int split = pattern ? ts_split_of_pattern(pattern) : -1;
    if (split < 0 || !is_text(get(item, "behavior"), "Isolated") ||
        cJSON_IsTrue(get(item, "invert")))
        return ts_fail(TS_EUNSUPPORTED, "tokenizer: the pattern %s is not one that is known",
                       pattern ? pattern : "of the file");
    t->split = (ts_splitter)split;
    return TS_OK;
}

static ts_status read_pre_tokenizer(ts_tokenizer *t, const cJSON *item)
{
    const cJSON *list = get(item, "pretokenizers");
    if (is_text(get(item, "type"), "ByteLevel")) return read_byte_level(t, item);
    if (!is_text(get(item, "type"), "Sequence") || cJSON_GetArraySize(list) != 2 ||
        !is_text(get(cJSON_GetArrayItem(list, 0), "type"), "Split") ||
        !is_text(get(cJSON_GetArrayItem(list, 1), "type"), "ByteLevel") ||
        !cJSON_IsFalse(get(cJSON_GetArrayItem(list, 1), "use_regex")))
        return unsupported("pre_tokenizer", item);
    TS_TRY(read_byte_level(t, cJSON_GetArrayItem(list, 1)));
    return read_split(t, cJSON_GetArrayItem(list, 0));
}

static ts_status read_added(ts_tokenizer *t, const cJSON *list)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        const char *text = cJSON_GetStringValue(get(item, "content"));
        const cJSON *id = get(item, "id");
        if (!text || !cJSON_IsNumber(id))
            return ts_fail(TS_EFORMAT, "tokenizer: an added token has no text or no number");
        if (cJSON_IsTrue(get(item, "lstrip")) || cJSON_IsTrue(get(item, "rstrip")) ||
            cJSON_IsTrue(get(item, "single_word")))
            return ts_fail(TS_EUNSUPPORTED,
                           "tokenizer: the added token '%s' strips its surroundings", text);
        TS_TRY(ts_tokenizer_add_added(t, text, id->valuedouble));
    }
    return TS_OK;
}

static ts_status read_root(ts_tokenizer *t, const cJSON *root)
{
    if (!cJSON_IsObject(root)) return ts_fail(TS_EFORMAT, "tokenizer: this is not a JSON object");
    if (!is_unset(get(root, "normalizer")))
        return unsupported("normalizer", get(root, "normalizer"));
    TS_TRY(read_model(t, get(root, "model")));
    TS_TRY(read_pre_tokenizer(t, get(root, "pre_tokenizer")));
    return read_added(t, get(root, "added_tokens"));
}

static ts_status parse(ts_tokenizer *t, const char *text, size_t size,
                       ts_status (*read)(ts_tokenizer *t, const cJSON *root))
{
    size_t bad;
    if (!ts_utf8_valid(text, size, &bad))
        return ts_fail(TS_EFORMAT, "tokenizer: byte %zu is not UTF-8", bad);
    cJSON *root = cJSON_ParseWithLength(text, size);
    ts_status status = root ? read(t, root) : ts_fail(TS_EFORMAT, "tokenizer: this is not JSON");
    cJSON_Delete(root);
    return status;
}

ts_status ts_tokenizer_read_json(ts_tokenizer *t, const char *text, size_t size)
{
    return parse(t, text, size, read_root);
}

ts_status ts_tokenizer_read_vocab(ts_tokenizer *t, const char *text, size_t size)
{
    return parse(t, text, size, read_vocab);
}

/* A merge per line, the best first; a first line can name the version. */
ts_status ts_tokenizer_read_merges(ts_tokenizer *t, const char *text, size_t size)
{
    const char *end = text + size;
    if (!ts_utf8_valid(text, size, NULL))
        return ts_fail(TS_EFORMAT, "tokenizer: the merges are not UTF-8");
    for (const char *line = text; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        size_t length = (size_t)((stop ? stop : end) - line);
        if (length > 0 && line[length - 1] == '\r') length--;
        bool version = line == text && length >= 8 && memcmp(line, "#version", 8) == 0;
        if (length > 0 && !version) TS_TRY(add_line(t, line, length));
        if (!stop) break;
        line = stop + 1;
    }
    return TS_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

typedef ts_status (*reader)(ts_tokenizer *t, const char *text, size_t size);

static ts_status read_file(ts_tokenizer *t, const char *path, reader read)
{
    ts_scope scope = ts_scope_begin();
    ts_tensor *file = ts_map_file(path);
    ts_status status = ts_tensor_check(file, "tokenizer: the file");
    if (status == TS_OK) {
        size_t length = strlen(path);
        int mark = ts_where_push(length > 200 ? path + length - 200 : path);
        const char *text = ts_data(file);
        status = read(t, text ? text : "", ts_nbytes(file));
        ts_where_pop(mark);
    }
    ts_scope_end(scope);
    return status;
}

static ts_status complete(ts_tokenizer **out, ts_tokenizer *t, ts_status status)
{
    if (status == TS_OK) status = ts_tokenizer_complete(t);
    if (status == TS_OK)
        *out = t;
    else
        ts_tokenizer_free(t);
    return status;
}

static ts_status open_json(ts_tokenizer **out, const char *path)
{
    ts_tokenizer *t = ts_calloc(1, sizeof *t);
    if (!t) return ts_fail_memory(sizeof *t, "a tokenizer");
    return complete(out, t, read_file(t, path, ts_tokenizer_read_json));
}

ts_status ts_tokenizer_bpe(ts_tokenizer **out, const char *vocab_path, const char *merges_path)
{
    static const char end[] = "<|endoftext|>"; /* GPT-2's, which its files do not mark */
    if (!vocab_path || !merges_path)
        return ts_fail(TS_EINVAL, "tokenizer_bpe: paths of a vocabulary and merges are needed");
    ts_tokenizer *t = ts_calloc(1, sizeof *t);
    if (!t) return ts_fail_memory(sizeof *t, "a tokenizer");
    t->split = TS_SPLIT_GPT2;
    ts_status status = read_file(t, vocab_path, ts_tokenizer_read_vocab);
    if (status == TS_OK) status = read_file(t, merges_path, ts_tokenizer_read_merges);
    int64_t id = ts_tokenizer_id(t, end);
    if (status == TS_OK && id >= 0) status = ts_tokenizer_add_added(t, end, (double)id);
    return complete(out, t, status);
}

static ts_status open_folder(ts_tokenizer **out, const char *folder)
{
    char *json = ts_asprintf("%s/tokenizer.json", folder);
    char *vocab = ts_asprintf("%s/vocab.json", folder);
    char *merges = ts_asprintf("%s/merges.txt", folder);
    ts_status status;
    if (!json || !vocab || !merges)
        status = ts_fail_memory(strlen(folder), "a path");
    else if (access(json, F_OK) == 0 || access(vocab, F_OK) != 0)
        status = open_json(out, json);
    else
        status = ts_tokenizer_bpe(out, vocab, merges);
    free(json);
    free(vocab);
    free(merges);
    return status;
}

ts_status ts_tokenizer_open(ts_tokenizer **out, const char *path)
{
    struct stat info;
    if (!path) return ts_fail(TS_EINVAL, "tokenizer_open: the path is missing (NULL)");
    bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    return folder ? open_folder(out, path) : open_json(out, path);
}
