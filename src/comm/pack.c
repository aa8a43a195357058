/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/pack.h"

#include <stdlib.h>

#include "base/memory.h"

ts_status ts_pack_begin(ts_pack *pack, const ts_call *call, int ranks, bool sides)
{
    pack->parts = pack->few_parts;
    pack->packed = pack->few_packed;
    pack->num_packed = 0;
    pack->scaled = call->scaled;
    pack->factor = call->factor;
    if (ranks <= TS_FEW_RANKS || !sides) return TS_OK;
    pack->parts = ts_calloc(2 * (size_t)ranks, sizeof *pack->parts);
    pack->packed = ts_calloc(2 * (size_t)ranks + 1, sizeof *pack->packed);
    if (pack->parts && pack->packed) return TS_OK;
    return ts_fail_memory((size_t)ranks * sizeof *pack->packed, "a collective");
}

void ts_pack_end(ts_pack *pack)
{
    for (int i = 0; i < pack->num_packed; i++) ts_release(pack->packed[i].copy);
    if (pack->parts != pack->few_parts) free(pack->parts);
    if (pack->packed != pack->few_packed) free(pack->packed);
}

ts_tensor *ts_pack_room(const ts_spec *spec)
{
    ts_tensor *room = ts_tensor_new_owned(spec, TS_MEMORY_SHARED, TS_CATEGORY_COMMUNICATION);
    if (!ts_failed(room)) return room;
    ts_release(room);
    room = ts_tensor_new_owned(spec, TS_MEMORY_HEAP, TS_CATEGORY_COMMUNICATION);
    if (ts_tensor_check(room, "a contiguous copy") == TS_OK) return room;
    ts_release(room);
    return NULL;
}

static ts_buffer buffer_of(const ts_tensor *t)
{
    size_t skip = (size_t)t->offset * ts_element_size(t->dtype);
    int64_t shared = t->storage->shared_offset;
    if (t->numel == 0) return (ts_buffer){NULL, 0, shared < 0 ? -1 : shared};
    return (ts_buffer){ts_tensor_bytes(t), ts_real_count(t),
                       ts_storage_place(t->storage, skip, ts_nbytes(t))};
}

static void scale(ts_tensor *t, double factor)
{
    int64_t count = ts_real_count(t);
    if (ts_element_size(t->dtype) == (ts_is_complex(t->dtype) ? 16 : 8)) {
        double *data = (double *)(void *)ts_tensor_bytes(t);
        for (int64_t i = 0; i < count; i++) data[i] *= factor;
    } else {
        float *data = (float *)(void *)ts_tensor_bytes(t);
        for (int64_t i = 0; i < count; i++) data[i] = (float)(data[i] * factor);
    }
}

ts_status ts_pack_tensor(ts_buffer *out, ts_pack *pack, ts_tensor *t, int use)
{
    ts_spec spec = ts_tensor_spec(t);
    bool widened = pack->scaled && ts_element_size(t->dtype) == 2;
    if (t->contiguous && !widened && !(pack->scaled && use & TS_PACK_IN)) {
        *out = buffer_of(t);
        return TS_OK;
    }
    if (widened) spec.dtype = TS_FLOAT32;
    ts_tensor *copy = ts_pack_room(&spec);
    if (!copy) return TS_ENOMEM;
    pack->packed[pack->num_packed++] = (ts_packed){t, copy, use & TS_PACK_OUT};
    if (use & TS_PACK_IN) TS_TRY(ts_tensor_copy_data(copy, t));
    if (pack->scaled && use & TS_PACK_IN && copy->numel > 0) scale(copy, pack->factor);
    *out = buffer_of(copy);
    return TS_OK;
}

ts_status ts_pack_results(const ts_pack *pack)
{
    for (int i = 0; i < pack->num_packed; i++) {
        const ts_packed *p = &pack->packed[i];
        if (p->back) TS_TRY(ts_tensor_copy_data(p->original, p->copy));
    }
    return TS_OK;
}
