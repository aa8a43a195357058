/* SPDX-License-Identifier: Apache-2.0 */
/* Lesson 5: a backend of your own, written with tessera/ext/backend.h alone.  This one moves all data
 * through the store, which is slow and works wherever ranks can meet.
 * Run it: build/bin/tessera run -n 3 build/bin/05_own_backend */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/ext/backend.h>
#include <tessera/tessera.h>

#define TRY(e)                                                                                     \
    do {                                                                                           \
        ts_status status_ = (e);                                                                   \
        if (status_ != TS_OK) return status_;                                                      \
    } while (0)

/* What a group keeps; the library allocates it, zeroed. */
typedef struct by_store {
    char name[64];
    int rank, size;
    ts_store *store;
    bool broken;
} by_store;

enum { TO_ALL = -1 };

/* ---- one rank gives, another takes ----------------------------------------------------------- */

/* Where rank `from` leaves for rank `to` what it gives in an operation. */
static const char *key_of(char key[64], const ts_coll *coll, const char *what, int from, int to)
{
    snprintf(key, 64, "%llu/%s/%d/%d", (unsigned long long)coll->sequence, what, from, to);
    return key;
}

static ts_status give(by_store *b, const ts_coll *coll, const ts_buffer *buffer, int to)
{
    char key[64];
    size_t bytes = (size_t)buffer->count * ts_dtype_size(coll->dtype);
    return ts_store_set(b->store, key_of(key, coll, "data", b->rank, to), buffer->data, bytes);
}

/* *data is malloc'd. */
static ts_status take(by_store *b, const ts_coll *coll, const char *what, int from, int to,
                      void **data)
{
    char key[64];
    size_t bytes;
    const char *keys[] = {key_of(key, coll, what, from, to)};
    TRY(ts_store_wait(b->store, keys, 1, coll->timeout_ms));
    return ts_store_get(b->store, key, data, &bytes);
}

static ts_status take_into(by_store *b, const ts_coll *coll, const ts_buffer *out, int from, int to)
{
    void *data;
    TRY(take(b, coll, "data", from, to, &data));
    if (out->count > 0) memcpy(out->data, data, (size_t)out->count * ts_dtype_size(coll->dtype));
    free(data);
    return TS_OK;
}

/* The reduction of what all ranks gave to `to`. */
static ts_status take_reduced(by_store *b, const ts_coll *coll, const ts_buffer *out, int to)
{
    ts_status status = TS_OK;
    void **from = calloc((size_t)b->size, sizeof *from);
    if (!from) return ts_host()->fail(TS_ENOMEM, "by_store: out of memory");
    for (int q = 0; status == TS_OK && q < b->size; q++)
        status = take(b, coll, "data", q, to, &from[q]);
    if (status == TS_OK)
        ts_host()->combine(out->data, (const void *const *)from, b->size, out->count, coll->dtype,
                           coll->reduce);
    for (int q = 0; q < b->size; q++) free(from[q]);
    free(from);
    return status;
}

/* ---- agreement ------------------------------------------------------------------------------- */

/* Every rank says what it calls and reads what the others say: a mismatch is the same error on all
 * instead of a wrong result on some.  *go: the data may move. */
static ts_status agree(by_store *b, const ts_coll *coll, bool *go)
{
    char key[64];
    bool bad = false;
    ts_statement *all = calloc((size_t)b->size, sizeof *all), own;
    if (!all) return ts_host()->fail(TS_ENOMEM, "by_store: out of memory");
    ts_host()->state(&own, coll, b->rank, b->size);
    ts_status status =
        ts_store_set(b->store, key_of(key, coll, "call", b->rank, TO_ALL), &own, sizeof own);
    for (int q = 0; status == TS_OK && q < b->size; q++) {
        void *data = NULL;
        status = take(b, coll, "call", q, TO_ALL, &data);
        if (status == TS_OK) memcpy(&all[q], data, sizeof *all);
        free(data);
    }
    b->broken |= status != TS_OK;
    if (status == TS_OK) status = ts_host()->judge(all, coll, b->rank, b->size, b->name, &bad);
    *go = status == TS_OK && !bad;
    free(all);
    return status;
}

/* All ranks are in this operation, so nobody reads what was left in the one before. */
static void tidy(by_store *b, const ts_coll *coll)
{
    char key[64];
    ts_coll before = {.sequence = coll->sequence - 1};
    ts_store_delete_key(b->store, key_of(key, &before, "call", b->rank, TO_ALL), NULL);
    for (int q = TO_ALL; q < b->size; q++)
        ts_store_delete_key(b->store, key_of(key, &before, "data", b->rank, q), NULL);
}

/* ---- the collectives ------------------------------------------------------------------------- */

static ts_status move(by_store *b, const ts_coll *coll)
{
    bool root = coll->root == b->rank;
    int me = b->rank;
    switch (coll->op) {
    case TS_COLL_BARRIER: return TS_OK;
    case TS_COLL_ALL_REDUCE:
    case TS_COLL_REDUCE:
        TRY(give(b, coll, &coll->tensor, TO_ALL));
        if (coll->op == TS_COLL_REDUCE && !root) return TS_OK;
        return take_reduced(b, coll, &coll->tensor, TO_ALL);
    case TS_COLL_BROADCAST:
        return root ? give(b, coll, &coll->tensor, TO_ALL)
                    : take_into(b, coll, &coll->tensor, coll->root, TO_ALL);
    case TS_COLL_ALL_GATHER:
    case TS_COLL_GATHER:
        TRY(give(b, coll, &coll->tensor, TO_ALL));
        for (int q = 0; coll->parts && q < b->size; q++)
            TRY(take_into(b, coll, &coll->parts[q], q, TO_ALL));
        return TS_OK;
    default: break; /* those that give each rank a part of its own */
    }
    for (int q = 0; coll->parts && q < b->size; q++) TRY(give(b, coll, &coll->parts[q], q));
    if (coll->op == TS_COLL_SCATTER) return take_into(b, coll, &coll->tensor, coll->root, me);
    if (coll->op == TS_COLL_REDUCE_SCATTER) return take_reduced(b, coll, &coll->tensor, me);
    for (int q = 0; q < b->size; q++) TRY(take_into(b, coll, &coll->received[q], q, me));
    return TS_OK;
}

static ts_status collective(void *self, const ts_coll *coll)
{
    by_store *b = self;
    bool go;
    if (b->broken) return ts_host()->fail(TS_EABORTED, "by_store: the group is broken");
    TRY(agree(b, coll, &go));
    tidy(b, coll);
    ts_status status = go ? move(b, coll) : TS_OK;
    b->broken |= status != TS_OK;
    return status;
}

/* ---- life ------------------------------------------------------------------------------------ */

static ts_status init(void *self, const ts_backend_context *context)
{
    by_store *b = self;
    snprintf(b->name, sizeof b->name, "%s", context->group_name);
    b->rank = context->rank;
    b->size = context->size;
    b->store = ts_store_retain(context->store);
    return TS_OK;
}

static void fini(void *self) { ts_store_free(((by_store *)self)->store); }

/* The others notice at their time limits: a better backend would tell them. */
static void abort_all(void *self, ts_status status, const char *text)
{
    (void)status, (void)text;
    ((by_store *)self)->broken = true;
}

static bool is_broken(void *self) { return ((by_store *)self)->broken; }

/* No start and wait: messages get TS_EUNSUPPORTED. */
static const ts_backend_ops by_store_ops = {
    .version = TS_BACKEND_VERSION,
    .name = "by_store",
    .capabilities = TS_CAN_REPEAT_BITS | TS_CAN_USE_THREADS,
    .state_size = sizeof(by_store),
    .init = init,
    .fini = fini,
    .abort = abort_all,
    .is_broken = is_broken,
    .collective = {collective, collective, collective, collective, collective, collective,
                   collective, collective, collective},
};

int main(void)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    double sum, last;
    ts_must(ts_register_backend(&by_store_ops, "cpu"));
    opt.backend = "by_store";
    ts_must(ts_init_process_group(&opt));

    ts_tensor *t = ts_full(TS_SHAPE(1000), ts_rank() + 1.0, NULL);
    ts_tensor *all = ts_empty(TS_SHAPE(ts_world_size(), 1000), NULL);
    ts_must(ts_all_gather_into_tensor(NULL, all, t, NULL));
    ts_must(ts_all_reduce(NULL, t, TS_SUM, NULL));
    ts_must(ts_item(ts_select(t, 0, 0), &sum));
    ts_must(ts_item(ts_select(ts_select(all, 0, -1), 0, 999), &last));
    if (ts_rank() == 0)
        printf("%s: the sum is %g, the last rank has %g\n", ts_group_backend(NULL), sum, last);

    ts_tensor *odd = ts_ones(TS_SHAPE(ts_rank() == 1 ? 5 : 4), NULL);
    ts_status status = ts_all_reduce(NULL, odd, TS_SUM, NULL);
    if (ts_rank() == 0) printf("%s: %s\n", ts_status_name(status), ts_error_last());
    ts_must(ts_barrier(NULL, NULL));
    return ts_destroy_process_group(NULL) == TS_OK ? 0 : 1;
}
