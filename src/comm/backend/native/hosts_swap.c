/* SPDX-License-Identifier: Apache-2.0 */
/* Two hosts of one rank each: all that an operation does is to send something to the other rank and
 * to receive something from it. */
#include "comm/backend/native/team.h"
#include "kernels/combine.h"

bool ts_can_swap(const ts_native *n) { return n->size == 2 && !n->shared; }

static ts_status await(ts_native *n, const ts_coll *coll, ts_message *message)
{
    return message ? ts_message_wait(message, ts_native_deadline(n, coll), NULL) : TS_OK;
}

/* What the agreement has let through; sent: the own data, if it is on its way. */
static ts_status transfer(ts_native *n, const ts_coll *coll, ts_message *sent, const void *out,
                          size_t out_bytes, void *in, size_t in_bytes)
{
    ts_message *received = NULL;
    int peer = 1 - n->rank;
    ts_status status = TS_OK;
    if (in_bytes > 0) status = ts_native_recv(&received, n, coll, peer, TS_SWAP_STEP, in, in_bytes);
    if (status == TS_OK && out_bytes > 0 && !sent)
        status = ts_native_send(&sent, n, coll, peer, TS_SWAP_STEP, out, out_bytes);
    if (status == TS_OK) {
        status = await(n, coll, received);
        received = NULL;
    }
    if (status == TS_OK) return await(n, coll, sent);
    ts_message_free(received);
    ts_message_free(sent);
    return status;
}

ts_status ts_hosts_swap(ts_native *n, const ts_coll *coll, const void *out, size_t out_bytes,
                        void *in, size_t in_bytes)
{
    ts_message *sent;
    size_t ahead = out_bytes <= TS_SWAP_AHEAD_MAX ? out_bytes : 0;
    ts_status status = ts_hosts_agree_ahead(n, coll, out, ahead, &sent);
    if (status != TS_OK) {
        bool broken = atomic_load(&n->broken);
        if (broken)
            ts_message_free(sent);
        else if (await(n, coll, sent) != TS_OK)
            return ts_native_message_failed(n, coll, TS_ENETWORK);
        return status;
    }
    status = transfer(n, coll, sent, out, out_bytes, in, in_bytes);
    return status == TS_OK ? TS_OK : ts_native_message_failed(n, coll, status);
}

ts_status ts_hosts_swap_sum(ts_native *n, const ts_coll *coll, const void *out, size_t out_bytes,
                            const void *own, void *to, size_t bytes)
{
    char *scratch = ts_native_scratch(n, bytes);
    if (!scratch) return ts_native_give_up(n, TS_ENOMEM);
    TS_TRY(ts_hosts_swap(n, coll, out, out_bytes, scratch, bytes));
    if (bytes == 0) return TS_OK;
    const void *sources[2] = {own, own};
    sources[1 - n->rank] = scratch;
    ts_team lane = ts_lane_team(n, coll);
    ts_combine(to, sources, 2, (int64_t)(bytes / ts_dtype_size(coll->dtype)), coll->dtype,
               ts_partial_op(coll));
    ts_team_finish(&lane, to, bytes);
    return TS_OK;
}
