/* SPDX-License-Identifier: Apache-2.0 */
/* Storing into the tensors of peers, and what makes it safe (docs/rationale.md). */
#include "comm/backend/native/native.h"

enum { PAGE = 4096 };

bool ts_shm_all_store(const ts_shm *s, const ts_coll *coll)
{
    for (int q = 0; q < s->size; q++) {
        const ts_header *h = ts_shm_header(s, coll, q);
        if (!h->stores || h->payload.place < 0) return false;
    }
    return true;
}

ts_span ts_shm_storable(int64_t place, size_t bytes)
{
    size_t at = (size_t)place, begin = (at + PAGE - 1) / PAGE * PAGE;
    size_t end = (at + bytes) / PAGE * PAGE;
    if (begin >= end) return (ts_span){0, 0};
    return (ts_span){begin - at, end - at};
}

/* Peers store when all have arrived and agree.  That they do not agree leaves the group whole, so
 * only on a broken one may some have gone on: also without this rank having seen all arrive. */
ts_status ts_shm_detach(ts_shm *s, const ts_coll *coll, ts_status status)
{
    const ts_header *own = ts_shm_header(s, coll, s->rank);
    bool announced = atomic_load(&own->sequence) == coll->sequence;
    if (!announced || !own->stores || own->payload.place < 0) return status;
    if (!atomic_load(&s->native->broken)) return status;
    char text[TS_ERROR_MAX];
    snprintf(text, sizeof text, "%s", ts_error_last());
    size_t bytes = (size_t)coll->tensor.count * ts_dtype_size(coll->dtype);
    if (ts_shared_heap_detach(s->heap, own->payload.place, bytes) == TS_OK)
        return ts_fail_again(status, text);
    return ts_fail(status,
                   "%.*s; and late ranks may still write into the tensor (%s): do not use its "
                   "memory any more",
                   (int)sizeof text / 2, text, ts_error_last());
}
