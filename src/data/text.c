/* SPDX-License-Identifier: Apache-2.0 */
/* A text as one sequence of bytes per part, and windows of it. */
#include <stdlib.h>
#include <sys/mman.h>

#include "data/text_impl.h"
#include "formats/little.h"
#include "tensor/tensor.h"

static ts_status open_files(ts_text **out, const char *const *paths, int n, double holdout,
                            int width)
{
    if (n < 1 || !paths) return ts_fail(TS_EINVAL, "text_open: no file or folder was given");
    if (!(holdout >= 0.0 && holdout < 1.0))
        return ts_fail(TS_EINVAL, "text_open: holdout is %g; it must be in [0, 1)", holdout);
    ts_text *text = ts_calloc(1, sizeof *text);
    if (!text) return ts_fail_memory(sizeof *text, "a text");
    text->holdout = holdout;
    text->width = width;
    ts_status status = TS_OK;
    for (int i = 0; i < n && status == TS_OK; i++) status = ts_text_add(text, paths[i]);
    ts_map_fini(&text->seen);
    if (status != TS_OK) {
        ts_text_free(text);
        return status;
    }
    *out = text;
    return TS_OK;
}

ts_status ts_text_open(ts_text **out, const char *const *paths, int n, double holdout)
{
    return open_files(out, paths, n, holdout, 1);
}

ts_status ts_text_open_tokens(ts_text **out, const char *const *paths, int n, double holdout,
                              int bytes_per_token)
{
    if (bytes_per_token != 2 && bytes_per_token != 4)
        return ts_fail(TS_EINVAL, "text_open_tokens: tokens have 2 or 4 bytes, not %d",
                       bytes_per_token);
    return open_files(out, paths, n, holdout, bytes_per_token);
}

void ts_text_free(ts_text *text)
{
    if (!text) return;
    for (int64_t i = 0; i < text->count; i++) {
        ts_text_file *file = &text->file[i];
        if (file->mapped)
            munmap(file->block, file->block_bytes);
        else
            free(file->block);
    }
    free(text->file);
    ts_map_fini(&text->seen);
    free(text);
}

int64_t ts_text_bytes(const ts_text *text, bool held_out)
{
    return text ? text->tokens[held_out] : 0;
}

int64_t ts_text_windows(const ts_text *text, int64_t seq, bool held_out)
{
    int64_t tokens = ts_text_bytes(text, held_out);
    return seq < 1 || tokens < 1 ? 0 : (tokens - 1) / seq;
}

/* The last file whose share begins at or before offset. */
static int64_t file_at(const ts_text *text, bool part, int64_t offset)
{
    int64_t low = 0, high = text->count - 1;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (text->file[middle].start[part] <= offset)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static void widen(int64_t *to, const unsigned char *data, int64_t n, int width)
{
    if (width == 1)
        for (int64_t i = 0; i < n; i++) to[i] = data[i];
    else if (width == 2)
        for (int64_t i = 0; i < n; i++) to[i] = ts_little16(data + 2 * i);
    else
        for (int64_t i = 0; i < n; i++) to[i] = ts_little32(data + 4 * i);
}

/* n tokens from offset on, which lie inside the part. */
static void read_tokens(int64_t *to, const ts_text *text, bool part, int64_t offset, int64_t n)
{
    for (int64_t at = file_at(text, part, offset); n > 0; at++) {
        const ts_text_file *file = &text->file[at];
        int64_t first = part ? file->size - file->held : 0;
        int64_t size = part ? file->held : file->size - file->held;
        int64_t skip = offset - file->start[part];
        int64_t take = size - skip < n ? size - skip : n;
        widen(to, file->data + (first + skip) * text->width, take, text->width);
        to += take;
        offset += take;
        n -= take;
    }
}

static ts_status check_windows(const ts_text *text, int64_t seq, bool held_out,
                               const int64_t *index, int64_t batch)
{
    if (!text || !index)
        return ts_fail(TS_EINVAL, "text_batch: a text and window numbers are needed");
    if (seq < 1 || batch < 0)
        return ts_fail(TS_EINVAL, "text_batch: %lld windows of %lld tokens cannot be",
                       (long long)batch, (long long)seq);
    int64_t windows = ts_text_windows(text, seq, held_out);
    for (int64_t b = 0; b < batch; b++)
        if (index[b] < 0 || index[b] >= windows)
            return ts_fail(
                TS_EINVAL, "text_batch: window %lld is not among the %lld of the %s part",
                (long long)index[b], (long long)windows, held_out ? "held-out" : "training");
    return TS_OK;
}

ts_status ts_text_batch(ts_tensor **tokens, ts_tensor **targets, const ts_text *text, int64_t seq,
                        bool held_out, const int64_t *index, int64_t batch)
{
    TS_TRY(check_windows(text, seq, held_out, index, batch));
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    ts_tensor *x = ts_empty(TS_SHAPE(batch, seq), &opt);
    ts_tensor *y = ts_empty(TS_SHAPE(batch, seq), &opt);
    TS_TRY(ts_tensor_check(x, "tokens"));
    TS_TRY(ts_tensor_check(y, "targets"));
    int64_t *to_x = ts_data_mut(x), *to_y = ts_data_mut(y);
    for (int64_t b = 0; b < batch; b++) {
        read_tokens(to_x + b * seq, text, held_out, index[b] * seq, seq);
        read_tokens(to_y + b * seq, text, held_out, index[b] * seq + 1, seq);
    }
    *tokens = x;
    *targets = y;
    return TS_OK;
}
