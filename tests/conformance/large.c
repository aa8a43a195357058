/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of more bytes than an int counts.  The tensors take memory only where they are written,
 * and are checked at their ends. */
#include <string.h>
#include <sys/mman.h>

#include "conformance.h"

enum { MARKS = 16 };
static const int64_t over = (INT64_C(1) << 31) + MARKS, half = INT64_C(1) << 30;

static void unmap(void *data, void *bytes) { munmap(data, *(const size_t *)bytes); }

static ts_tensor *sparse_bytes(int64_t n)
{
    static size_t bytes; /* more than any of them */
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    bytes = (size_t)over;
    opt.dtype = TS_UINT8;
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return NULL;
    return ts_wrap(data, TS_SHAPE(n), &opt, unmap, &bytes);
}

static void mark(ts_tensor *t, int64_t at, int factor)
{
    unsigned char *data = ts_data_mut(t);
    for (int i = 0; i < MARKS; i++) data[at + i] = (unsigned char)((i + 1) * factor);
}

static bool is_marked(const ts_tensor *t, int64_t at, int factor)
{
    const unsigned char *data = ts_data(t);
    for (int i = 0; i < MARKS; i++)
        if (data[at + i] != (i + 1) * factor) return false;
    return true;
}

static void broadcast(conf *c)
{
    ts_tensor *t = sparse_bytes(over);
    if (c->rank == 1) mark(t, over - MARKS, 1);
    CONF_OK(ts_broadcast(c->group, t, 1, NULL));
    CONF_EXPECT(is_marked(t, over - MARKS, 1));
}

static void all_reduce(conf *c)
{
    ts_tensor *t = sparse_bytes(over);
    mark(t, 0, 1);
    mark(t, over - MARKS, 1 + c->rank);
    CONF_OK(ts_all_reduce(c->group, t, TS_SUM, NULL));
    CONF_EXPECT(is_marked(t, 0, 2));
    CONF_EXPECT(is_marked(t, over - MARKS, 3));
}

/* Each part is short enough for one call, all of them together are not. */
static void all_gather(conf *c)
{
    ts_tensor *own = sparse_bytes(half), *all = sparse_bytes(2 * half);
    mark(own, half - MARKS, 1 + c->rank);
    CONF_OK(ts_all_gather_into_tensor(c->group, all, own, NULL));
    CONF_EXPECT(is_marked(all, half - MARKS, 1) && is_marked(all, 2 * half - MARKS, 2));
}

static void reduce_scatter(conf *c)
{
    ts_tensor *own = sparse_bytes(half), *all = sparse_bytes(2 * half);
    mark(all, half - MARKS, 1);
    mark(all, 2 * half - MARKS, 2);
    CONF_OK(ts_reduce_scatter_tensor(c->group, own, all, TS_SUM, NULL));
    CONF_EXPECT(is_marked(own, half - MARKS, 2 * (1 + c->rank)));
}

static void message(conf *c)
{
    ts_tensor *t = sparse_bytes(over);
    if (c->rank == 0) {
        mark(t, over - MARKS, 3);
        CONF_OK(ts_send(c->group, t, 1, 7));
    } else {
        CONF_OK(ts_recv(c->group, t, 0, 7, NULL));
        CONF_EXPECT(is_marked(t, over - MARKS, 3));
    }
}

const conf_case conf_large[] = {
    {"large_broadcast", broadcast, 2, 2},   {"large_all_reduce", all_reduce, 2, 2},
    {"large_all_gather", all_gather, 2, 2}, {"large_reduce_scatter", reduce_scatter, 2, 2},
    {"large_message", message, 2, 2},       {NULL, NULL, 0, 0}};
