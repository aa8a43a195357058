/* SPDX-License-Identifier: Apache-2.0 */
/* Rank k of N without the others: every operation completes at once and nothing is sent.  For
 * measuring what a rank does by itself, and for planning layouts of any size.  What outputs hold is
 * what PyTorch's fake backend leaves: every rank's part is this rank's own. */
#include <string.h>

#include "base/error.h"
#include "comm/backends.h"

typedef struct fake {
    int rank, size;
} fake;

static ts_status fake_place(int *rank, int *size)
{
    if (*size < 1 || *rank < 0 || *rank >= *size)
        return ts_fail(TS_EINVAL,
                       "backend 'fake' is told who it is: set rank and world_size (here %d of %d)",
                       *rank, *size);
    return TS_OK;
}

static ts_status fake_init(void *self, const ts_backend_context *context)
{
    fake *f = self;
    f->rank = context->rank;
    f->size = context->size;
    return TS_OK;
}

static ts_status fake_split(void *self, const ts_backend_context *context, void *parent,
                            const int *ranks, ts_split_record *own)
{
    (void)parent, (void)ranks, (void)own;
    return fake_init(self, context);
}

static ts_status fake_join(void *self, const ts_split_record *all)
{
    (void)self, (void)all;
    return TS_OK;
}

static void fake_fini(void *self) { (void)self; }

static void fake_abort(void *self, ts_status status, const char *text)
{
    (void)self, (void)status, (void)text;
}

static bool fake_is_broken(void *self)
{
    (void)self;
    return false;
}

static void copy(ts_dtype dtype, const ts_buffer *to, const ts_buffer *from)
{
    int64_t count = to->count < from->count ? to->count : from->count;
    if (count > 0 && to->data != from->data)
        memmove(to->data, from->data, (size_t)count * ts_dtype_size(dtype));
}

/* all_reduce, reduce, broadcast, barrier: the tensor stays as it is. */
static ts_status leave(void *self, const ts_coll *coll)
{
    (void)self, (void)coll;
    return TS_OK;
}

/* all_gather, gather: as if all ranks held the same. */
static ts_status spread(void *self, const ts_coll *coll)
{
    const fake *f = self;
    for (int q = 0; coll->parts && q < f->size; q++)
        copy(coll->dtype, &coll->parts[q], &coll->tensor);
    return TS_OK;
}

/* reduce_scatter, scatter: this rank's own part. */
static ts_status take_own(void *self, const ts_coll *coll)
{
    const fake *f = self;
    if (coll->parts) copy(coll->dtype, &coll->tensor, &coll->parts[f->rank]);
    return TS_OK;
}

static ts_status swap_own(void *self, const ts_coll *coll)
{
    const fake *f = self;
    for (int q = 0; coll->parts && q < f->size; q++)
        copy(coll->dtype, &coll->received[q], &coll->parts[q]);
    return TS_OK;
}

/* A message is done when it starts; what is received stays as it was.  The request is the peer. */
static ts_status fake_start(void **request, void *self, const ts_p2p *message)
{
    (void)self;
    int peer = message->peer == TS_ANY_SOURCE ? 0 : message->peer;
    *request = (void *)((uintptr_t)peer + 1);
    if (message->done) message->done(message->user, TS_OK, NULL, peer);
    return TS_OK;
}

static ts_status fake_wait(void *self, void *request, int64_t timeout_ms, int *peer)
{
    (void)self, (void)timeout_ms;
    if (peer) *peer = (int)((uintptr_t)request - 1);
    return TS_OK;
}

static void fake_release(void *self, void *request) { (void)self, (void)request; }

static const ts_backend_ops fake_ops = {
    .version = TS_BACKEND_VERSION,
    .name = "fake",
    .capabilities = TS_CAN_SPLIT | TS_CAN_RESTART | TS_CAN_REPEAT_BITS | TS_CAN_USE_THREADS,
    .state_size = sizeof(fake),
    .place = fake_place,
    .init = fake_init,
    .split = fake_split,
    .join = fake_join,
    .fini = fake_fini,
    .abort = fake_abort,
    .is_broken = fake_is_broken,
    .collective = {[TS_COLL_BARRIER] = leave,
                   [TS_COLL_ALL_REDUCE] = leave,
                   [TS_COLL_REDUCE] = leave,
                   [TS_COLL_BROADCAST] = leave,
                   [TS_COLL_ALL_GATHER] = spread,
                   [TS_COLL_GATHER] = spread,
                   [TS_COLL_REDUCE_SCATTER] = take_own,
                   [TS_COLL_SCATTER] = take_own,
                   [TS_COLL_ALL_TO_ALL] = swap_own},
    .start = fake_start,
    .wait = fake_wait,
    .release = fake_release,
};

const ts_backend_ops *ts_backend_fake(void) { return &fake_ops; }
